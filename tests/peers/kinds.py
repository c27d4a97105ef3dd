"""Every way of drafting against transformers, by the kinds of prompts of `localchat bench`.

    python -m tests.peers.kinds                                         # the built-in models
    python -m tests.peers.kinds --target FOLDER --part eagle --part medusa --assistant ""

One session per part that drafts (a draft model, a head), each with its own method and `mixed`; replies are greedy and
end where the model ends them. Per kind and engine: tokens / decoding seconds as measure.py defines them, over all
prompts of the kind, as a ratio to our own plain decoding; medians over the passes, each ratio formed within its pass.
Lookup's memory of earlier replies is emptied before each. A table for people, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from statistics import median

import torch

from localchat.bench.categories import KINDS, choose, form_of
from localchat.chat.conversation import Conversation
from localchat.chat.prompt import Prompt
from localchat.models.folders import find_model
from localchat.models.loader import load_tokenizer
from localchat.models.plan import STARTER, LoadPlan, Mode
from localchat.models.starter import DRAFT

from .ours import Ours
from .peer_transformers import Transformers
from .standalone import clean_up_when_terminated
from .starter import PLAIN, Tally, folded, our_reply, their_reply

ASKED = ("plain", "lookup 8", "lookup 10")
Question = tuple[str, Sequence[int]]
"""Kind and token ids."""
Tallies = dict[tuple[str, str], Tally]
"""By kind and engine."""


def sessions(target: str, parts: Sequence[str]) -> Iterator[tuple[str, Ours, tuple[str, ...]]]:
    """Name of the part, a loaded session, and the methods that it stands for; plain decoding first."""
    plain = LoadPlan(model=target, draft="off", device="cpu", mode=Mode.FAST)
    yield "", Ours(plain, ("off",)), ("off", "lookup")
    for part in parts:
        ours = Ours(LoadPlan(model=target, draft=part, device="cpu", mode=Mode.FAST))
        if ours.loaded.draft_kind != part:
            raise SystemExit(f"{target} has no {part}: {ours.loaded}")
        yield part, ours, (part, "mixed")


def label(part: str, method: str) -> str:
    """What a row is called."""
    if method == "off":
        return f"ours {PLAIN}"
    return f"ours mixed ({part}, lookup)" if method == "mixed" else f"ours {method}"


def one_pass(
    ours: Sequence[tuple[str, Ours, tuple[str, ...]]],
    theirs: Transformers | None,
    variants: Sequence[str],
    questions: Sequence[Question],
    tokens: int,
) -> Tallies:
    """Every engine on every prompt, interleaved."""
    tallies: Tallies = {}
    for number, (kind, ids) in enumerate(questions):
        for part, session, methods in ours:
            for method in methods:
                tally = tallies.setdefault((kind, label(part, method)), Tally())
                our_reply(session, method, ids, 0.0, number, tally, tokens)
        for variant in variants if theirs else ():
            tally = tallies.setdefault((kind, f"transformers {variant}"), Tally())
            if theirs:
                their_reply(theirs, variant, ids, 0.0, number, tally, tokens)
    return tallies


def report(passes: Sequence[Tallies]) -> None:
    """Print the tables and the line."""
    engines = list(dict.fromkeys(engine for _, engine in passes[0]))
    kinds = list(dict.fromkeys(kind for kind, _ in passes[0]))
    plain = engines[0]

    def over(kind: str, engine: str) -> float:
        return median(one[kind, engine].rate / one[kind, plain].rate for one in passes)

    results = {engine: {kind: round(over(kind, engine), 3) for kind in kinds} for engine in engines}
    print(f"{'× ours plain':<34}" + "".join(f"{kind:>20}" for kind in kinds))
    for engine in engines:
        print(f"{engine:<34}" + "".join(f"{results[engine][kind]:20.2f}" for kind in kinds))
    print(f"\n{'tokens a round, accepted':<34}" + "".join(f"{kind:>20}" for kind in kinds))
    for engine in engines:
        found = [stats for kind in kinds if (stats := folded(passes[-1][kind, engine]))]
        if found:
            cells = (f"{stats.tokens_per_round:12.2f}{stats.acceptance_rate:8.0%}" for stats in found)
            print(f"{engine:<34}" + "".join(cells))
    own = [engine for engine in engines if engine.startswith("ours")]
    if peers := [engine for engine in engines if engine not in own]:
        print("\nbest of ours / best of transformers (tokens per second)")
        for kind in kinds:
            first, second = (max(rows, key=lambda name: results[name][kind]) for rows in (own, peers))
            ratio = results[first][kind] / results[second][kind]
            print(f"  {kind:<20}{ratio:6.2f}   {first} / {second}")
    print(json.dumps({"passes": len(passes), "results": results}))


def main() -> None:
    """Load all, warm up on the first prompt, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--target", default=STARTER)
    parser.add_argument("--part", action="append", help="model, eagle, medusa, mtp; may be repeated")
    parser.add_argument("--assistant", default=str(DRAFT), help="folder of transformers' assistant; empty: none")
    parser.add_argument("--without-transformers", action="store_true")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clean_up_when_terminated()
    ours = list(sessions(options.target, options.part or ("model", "eagle", "medusa")))
    folder = find_model(options.target).folder
    theirs = None if options.without_transformers else Transformers(str(folder), options.assistant)
    variants = (*ASKED, *(("assistant", "assistant 4") if options.assistant else ()))
    prompt = Prompt(load_tokenizer(folder))
    chosen = choose(form_of(options.target), KINDS)
    questions = [(one.kind, prompt.encode(Conversation.begin().user(one.text))) for one in chosen]
    one_pass(ours, theirs, variants, questions[:1], options.tokens)
    report([one_pass(ours, theirs, variants, questions, options.tokens) for _ in range(options.repeats)])


if __name__ == "__main__":
    main()
