"""The command line on the real engine and the built-in pair."""

from __future__ import annotations

import json

from tests.cli.conftest import Run


def test_same_seed_same_text_with_and_without_acceleration(run: Run) -> None:
    """Guards the first promise from one end to the other: prompt, settings, engine, JSON."""
    arguments = (
        "ask",
        "What is a draft?",
        "--seed",
        "4",
        "--max-tokens",
        "24",
        "--precision",
        "fp32",
        "--exact",
        "--json",
    )
    fast, plain = (run(*arguments, *extra) for extra in ((), ("--no-accel",)))
    assert (fast.exit_code, plain.exit_code) == (0, 0), fast.stderr + plain.stderr
    accelerated, slow = json.loads(fast.stdout), json.loads(plain.stdout)
    assert accelerated["token_ids"] == slow["token_ids"]
    assert accelerated["text"] == slow["text"]
    assert (accelerated["accelerated"], slow["accelerated"]) == (True, False)
    assert accelerated["exact"]
    assert accelerated["stats"]["prompt_tokens"] > 0
    assert accelerated["stats"]["memory"]["target_bytes"] > 0


def test_a_prompt_that_is_too_long(run: Run) -> None:
    """Guards the sentence and the exit code for a prompt beyond the context."""
    result = run("ask", "-", "--context", "64", stdin="many words " * 200)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "context" in result.stderr
