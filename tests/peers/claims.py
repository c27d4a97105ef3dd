"""Figures of the engine itself, each printed as one line: what parking, hosting, turns and many replies cost.

    python -m tests.peers.claims [--model FOLDER] [--replies 300]

On an idle machine, with two threads. The starter pair without --model.
"""

from __future__ import annotations

import argparse
import gc
import itertools
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import torch

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.events import Failed, Finished, Loaded, Reply, Wrote
from localchat.chat.session import Session
from localchat.chat.writer import resident
from localchat.engine.types import Round, Sampling
from localchat.models.plan import STARTER, LoadPlan, Mode
from tests.support.tiny import Useless

QUESTION = "Give me a full tour of localchat"


def opened(plan: LoadPlan) -> tuple[Session, Loaded]:
    """A loaded session."""
    session = Session()
    last = list(session.load(plan))[-1]
    if not isinstance(last, Loaded):
        raise SystemExit(str(last))
    return session, last


def reply(session: Session, talk: Conversation, options: ReplyOptions) -> tuple[Reply, list[Round]]:
    """One reply and its rounds."""
    events = list(session.reply(talk, options))
    last = events[-1]
    if isinstance(last, Failed) or not isinstance(last, Finished):
        raise SystemExit(str(last))
    return last.reply, [event.round for event in events if isinstance(event, Wrote)]


def useless(session: Session, tokens: int, repeats: int = 5) -> None:
    """A drafter that is never right, against plain, over long replies."""
    engine = session._engine
    assert engine is not None
    engine.drafters["useless"] = Useless(1, engine.target.vocabulary)
    engine.governor.trust(Useless.priors)
    engine.models = replace(engine.models, eos_ids=frozenset())  # so that the reply is as long as asked
    options = ReplyOptions(Sampling(temperature=0.8, seed=4), max_tokens=tokens, fresh=True)
    ratios, parked, last = [], 0, 0
    for _ in range(repeats):
        plain, _ = reply(session, Conversation().user(QUESTION), replace(options, accelerate=False))
        noisy, rounds = reply(session, Conversation().user(QUESTION), replace(options, method="useless"))
        if engine.info.exact and noisy.token_ids != plain.token_ids:
            raise SystemExit("a useless drafter changed the text")
        ratios.append(noisy.stats.tokens_per_second / plain.stats.tokens_per_second)
        drafted = [r.index for r in rounds if r.drafted]
        gaps = [b - a for a, b in itertools.pairwise(drafted)]
        parked = next((drafted[i] for i, gap in enumerate(gaps) if gap > 4), drafted[-1] if drafted else 0)
        last = drafted[-1] if drafted else 0
    spread = f"median of {repeats}, {min(ratios):.3f} to {max(ratios):.3f}"
    print(f"useless drafter, {len(plain.token_ids)} tokens: {median(ratios):.3f} x plain ({spread})")
    print(f"    parked after round {parked}, last tried in round {last}")


def host(session: Session, methods: Sequence[str]) -> None:
    """Share of a round that is neither drafting nor verifying."""
    for method in methods:
        options = ReplyOptions(Sampling(temperature=0.0), max_tokens=200, method=method, fresh=True)
        shares = []
        for _ in range(3):
            stats = reply(session, Conversation().user(QUESTION), options)[0].stats
            shares.append(stats.host_seconds / stats.decode_seconds)
        print(f"host share, {method}: {median(shares):.1%} of a round")


def turns(session: Session, count: int = 10) -> None:
    """Tokens computed and time to the first token, turn by turn, with the caches kept."""
    talk, firsts, computed, fed = Conversation(), [], [], []
    options = ReplyOptions(Sampling(temperature=0.0), max_tokens=60)
    engine = session._engine
    assert engine is not None
    draft = engine.parts.draft
    assert draft is not None
    before = 0
    for turn in range(count):
        talk = talk.user(("What is a draft model?", "And what is a round?", "Why is it fast?")[turn % 3])
        held = len(draft.tokens)
        answer, _ = reply(session, talk, options)
        talk = talk.assistant(answer.text)
        firsts.append(answer.first_token_seconds)
        computed.append(answer.stats.prefilled)
        fed.append(answer.stats.prompt_tokens - before)
        before = answer.stats.prompt_tokens + len(answer.token_ids)
        print(f"turn {turn + 1}: prompt {answer.stats.prompt_tokens}, computed {computed[-1]}, new {fed[-1]}")
        print(f"    draft cache held {held}, first token {firsts[-1] * 1000:.0f} ms")
    print(f"first token of turn 10 / turn 2: {firsts[9] / firsts[1]:.2f}")


def many(session: Session, replies: int) -> None:
    """Resident memory over many replies of several chats."""
    questions = (
        "What is acceptance?",
        "How do I switch drafting off?",
        "What does nf4 mean?",
        "Tell me a story",
        "Hi!",
    )
    after_warm_up = 0
    for index in range(replies + 20):
        if index == 20:
            gc.collect()
            after_warm_up = resident()
        options = ReplyOptions(Sampling(temperature=0.8, seed=index), max_tokens=80)
        reply(session, Conversation().user(questions[index % len(questions)] + " " * (index // 5 % 3)), options)
    gc.collect()
    grown = resident() / after_warm_up - 1
    print(f"{replies} replies: resident memory {after_warm_up / 2**20:.0f} MiB, grown {grown:+.2%}")


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=STARTER)
    parser.add_argument("--replies", type=int, default=300)
    parser.add_argument("--skip-long", action="store_true")
    parser.add_argument("--mode", default="auto")
    args = parser.parse_args()
    torch.set_num_threads(2)
    session, loaded = opened(LoadPlan(model=args.model, context=2048, mode=Mode(args.mode)))
    usage, plan = loaded.usage, loaded.memory
    print(f"{loaded.model_name} {loaded.plan.precision}: exact {loaded.exact} (width {loaded.width}, "
          f"costs {loaded.exact_cost:.1%}), plain {loaded.plain_tokens_per_second:.1f} tok/s")  # fmt: skip
    print(f"weights measured / planned {usage.target / plan.target:.4f}, "
          f"cache measured / planned {usage.target_cache / plan.target_cache:.4f}")  # fmt: skip
    host(session, ("off", "lookup", "mixed") if loaded.draft_name else ("off", "lookup"))
    if loaded.draft_name and not args.skip_long:
        turns(session)
        many(session, args.replies)
    useless(session, 512)


if __name__ == "__main__":
    main()
