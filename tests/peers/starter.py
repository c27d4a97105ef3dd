"""The built-in pair: our model and mixed drafting against transformers' assistant model, over the held-out questions.

    python -m tests.peers.starter --questions 40

Per temperature and engine, over all questions: tokens / decoding seconds as measure.py defines them, and tokens / all
seconds, prefill included. "ours plain" is decoding at width 1 in a session of its own; "ours off" is what exact mode
makes of it, and what texts are compared with. Replies end where the model ends them, so above temperature 0 texts and
lengths differ between the two programs; within ours they are compared. A table, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter
from typing import Any

import torch
from transformers import AutoTokenizer

from localchat.chat.backend import ReplyOptions
from localchat.chat.conversation import Conversation
from localchat.chat.prompt import Prompt
from localchat.engine.types import GenerationStats, Sampling
from localchat.models.plan import LoadPlan, Mode, Precision
from localchat.models.starter import DRAFT, TARGET
from localchat.models.starter.score import load_questions

from .measure import Clock, Sample
from .ours import Ours
from .peer_transformers import Transformers
from .standalone import clean_up_when_terminated

TEMPERATURES = (0.0, 0.8)
LONGEST = 256
METHODS = ("off", "model", "mixed")
PLAIN = "plain"
THEIRS = ("plain", "assistant", "assistant 4")
"""transformers' default draws up to 20 tokens and stops below a confidence of 0.4; "assistant 4" always draws 4."""
_HEADER = (
    "temperature  engine                      tok/s   all in  × plain  tok/round  accepted  predicted  host  same text"
)
_DTYPES = {Precision.BF16: torch.bfloat16, Precision.FP32: torch.float32}


@dataclass(slots=True)
class Tally:
    """One engine at one temperature, in one pass over the questions."""

    tokens: int = 0
    later: int = 0
    """Tokens after the first piece of each reply."""
    decode_seconds: float = 0.0
    all_seconds: float = 0.0
    texts: list[str] = field(default_factory=list)
    stats: list[GenerationStats] = field(default_factory=list)

    def add(self, sample: Sample, seconds: float) -> None:
        """Count one reply."""
        self.texts.append(sample.text)
        self.all_seconds += seconds
        if sample.pieces:
            self.tokens += sample.tokens
            self.later += sample.tokens - sample.pieces[0].tokens
            self.decode_seconds += sample.decode_seconds

    @property
    def rate(self) -> float:
        """Tokens per second of decoding."""
        return self.later / self.decode_seconds if self.decode_seconds else 0.0


def our_reply(
    ours: Ours, method: str, ids: Sequence[int], temperature: float, seed: int, tally: Tally, longest: int = LONGEST
) -> None:
    """One reply of ours, lookup's memory of earlier replies emptied."""
    sampling = Sampling(temperature=temperature, seed=seed)
    options = ReplyOptions(sampling=sampling, max_tokens=longest, method=method, fresh=True)
    begun = perf_counter()
    sample = ours.ask(f"ours {method}", "question", ids, options)
    tally.add(sample, perf_counter() - begun)
    tally.stats.append(ours.replies[-1].stats)


def their_reply(
    theirs: Transformers,
    variant: str,
    ids: Sequence[int],
    temperature: float,
    seed: int,
    tally: Tally,
    longest: int = LONGEST,
) -> None:
    """One reply of transformers, the same distribution but its own noise."""
    options: dict[str, Any] = {"do_sample": False}
    if temperature:
        options = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    torch.manual_seed(seed)
    clock = Clock()
    begun = perf_counter()
    theirs.draw(variant)
    theirs.generate(ids, longest, clock, **options, **theirs.options(variant))
    seconds = perf_counter() - begun
    tally.add(clock.sample(f"transformers {variant}", "question", ""), seconds)


Tallies = dict[tuple[float, str], Tally]


def one_pass(plain: Ours, ours: Ours, theirs: Transformers | None, prompts: Sequence[Sequence[int]]) -> Tallies:
    """Every engine on every question at every temperature, interleaved."""
    tallies: Tallies = {}
    for number, ids in enumerate(prompts):
        for temperature in TEMPERATURES:
            tally = tallies.setdefault((temperature, f"ours {PLAIN}"), Tally())
            our_reply(plain, "off", ids, temperature, number, tally)
            for method in METHODS:
                tally = tallies.setdefault((temperature, f"ours {method}"), Tally())
                our_reply(ours, method, ids, temperature, number, tally)
            for variant in THEIRS if theirs else ():
                tally = tallies.setdefault((temperature, f"transformers {variant}"), Tally())
                if theirs:
                    their_reply(theirs, variant, ids, temperature, number, tally)
    return tallies


def folded(tally: Tally) -> GenerationStats | None:
    """The statistics of all replies of ours as one; None for transformers."""
    if not tally.stats:
        return None
    return GenerationStats(
        tokens=sum(one.tokens for one in tally.stats),
        rounds=sum(one.rounds for one in tally.stats),
        drafted=sum(one.drafted for one in tally.stats),
        accepted=sum(one.accepted for one in tally.stats),
        draft_seconds=sum(one.draft_seconds for one in tally.stats),
        verify_seconds=sum(one.verify_seconds for one in tally.stats),
        host_seconds=sum(one.host_seconds for one in tally.stats),
        expected_tokens=sum(one.expected_tokens for one in tally.stats),
        expected_cost=sum(one.expected_cost for one in tally.stats),
    )


def report(passes: Sequence[Tallies], exact: bool) -> None:
    """Print the table and the line; medians over the passes, each ratio formed within its pass."""
    results = []
    print(_HEADER)
    for temperature, engine in passes[0]:
        tallies = [one[temperature, engine] for one in passes]
        plain = f"{engine.split()[0]} {PLAIN}"
        speedup = median(tally.rate / one[temperature, plain].rate for tally, one in zip(tallies, passes, strict=True))
        rate = median(tally.rate for tally in tallies)
        whole = median(tally.tokens / tally.all_seconds for tally in tallies)
        result = {
            "temperature": temperature,
            "engine": engine,
            "tokens_per_second": round(rate, 1),
            "tokens_per_second_all_in": round(whole, 1),
            "speedup": round(speedup, 3),
        }
        line = f"{temperature:11}  {engine:<24}{rate:9.1f}{whole:9.1f}{speedup:9.2f}"
        if stats := folded(tallies[-1]):
            same = tallies[-1].texts == passes[-1][temperature, "ours off"].texts
            host = stats.host_seconds / stats.decode_seconds
            result |= {
                "tokens_per_round": round(stats.tokens_per_round, 2),
                "acceptance_rate": round(stats.acceptance_rate, 3),
                "predicted_speedup": round(stats.predicted_speedup, 3),
                "host_share": round(host, 3),
                "identical": same,
            }
            line += f"{stats.tokens_per_round:11.2f}{stats.acceptance_rate:10.1%}{stats.predicted_speedup:11.2f}"
            line += f"{host:6.1%}  {'yes' if same else 'no'}"
        results.append(result)
        print(line)
    print(json.dumps({"passes": len(passes), "exact": exact, "results": results}))


def main() -> None:
    """Load both, warm up on the first question, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--draft", default=str(DRAFT))
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3, help="passes over the questions")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="bf16", choices=[str(name) for name in _DTYPES])
    parser.add_argument("--mode", default="auto", help="of ours: auto, exact or fast")
    parser.add_argument("--without-transformers", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clean_up_when_terminated()
    precision = Precision(options.precision)
    plan = LoadPlan(
        model=options.target,
        precision=precision,
        draft="mixed",
        draft_model=options.draft,
        draft_precision=precision,
        device="cpu",
        mode=Mode(options.mode),
    )
    plain = Ours(replace(plan, draft="off", draft_model="", mode=Mode.FAST), ("off",))
    ours = Ours(plan)
    theirs = None
    if not options.without_transformers:
        theirs = Transformers(options.target, options.draft, _DTYPES[precision])
    prompt = Prompt(AutoTokenizer.from_pretrained(options.target))
    questions = [question.ask for question in load_questions()[: options.questions]]
    prompts = [prompt.encode(Conversation.begin().user(question)) for question in questions]
    one_pass(plain, ours, theirs, prompts[:1])
    passes = [one_pass(plain, ours, theirs, prompts) for _ in range(options.repeats)]
    report(passes, ours.loaded.exact)


if __name__ == "__main__":
    main()
