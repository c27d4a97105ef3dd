"""`localchat ask`: what goes where, and with which exit code."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path

import pytest

from localchat.chat.conversation import Conversation, Message, Role
from localchat.chat.events import Failed
from localchat.models.plan import Mode, Precision
from tests.cli.conftest import Run, write_config
from tests.support.backend import Scripted

STATS = {
    "tokens", "rounds", "drafted", "accepted", "acceptance_rate", "acceptance_by_position", "tokens_per_round",
    "prefill_seconds", "decode_seconds", "draft_seconds", "verify_seconds", "host_seconds", "first_token_seconds",
    "tokens_per_second", "plain_tokens_per_second", "speedup", "by_source", "memory", "prompt_tokens", "prefilled",
}  # fmt: skip


def test_answer_on_stdout_and_nothing_else(run: Run, backend: Scripted) -> None:
    """Guards against remarks mixed into an answer that a script reads."""
    backend.notes = ("It is a guide.",)
    result = run("ask", "Hi", "--stats")
    assert (result.exit_code, result.stdout) == (0, "Drafts are guesses.\n")
    assert "Note: It is a guide." in result.stderr
    assert "tok/s" in result.stderr
    assert "seed" in result.stderr
    assert backend.closed


def test_json_has_every_promised_name(run: Run, backend: Scripted) -> None:
    """Guards the names that scripts rely on."""
    result = run("ask", "Hi", "--json", "--seed", "7")
    record = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    names = ["text", "token_ids", "finish_reason", "seed", "model", "drafter", "accelerated", "exact", "stats"]
    assert list(record) == names
    assert set(record["stats"]) >= STATS
    assert record["seed"] == 7
    assert record["stats"]["tokens"] == len(record["token_ids"])
    assert record["stats"]["by_source"]["lookup"]["drafted"] == record["stats"]["drafted"]
    assert all(name.endswith("_bytes") for name in record["stats"]["memory"])


def test_jsonl_prints_each_event_and_round(run: Run, backend: Scripted) -> None:
    """Guards against rounds that are lost, and against Infinity, which is no JSON."""
    backend.margin = float("inf")
    lines = [json.loads(line) for line in run("ask", "Hi", "--jsonl").stdout.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds[:2] == ["loading", "loaded"]
    assert kinds[-1] == "finished"
    rounds = [line["round"] for line in lines if line["type"] == "wrote"]
    assert [round_["index"] for round_ in rounds] == list(range(lines[-1]["stats"]["rounds"]))
    assert rounds[0]["margin"] is None
    assert "".join(line["text"] for line in lines if line["type"] == "wrote") == lines[-1]["text"]


def test_options_reach_the_engine(run: Run, backend: Scripted) -> None:
    """Guards against an option that is parsed and forgotten."""
    arguments = (
        "ask Hi -m some/model --draft off --precision nf4 --draft-precision int8 --context 512 --device cpu --exact "
        "--seed 3 --temperature 0 --top-k 5 --top-p 0.5 --min-p 0.1 --repetition-penalty 1.1 --presence-penalty 0.2 "
        "--frequency-penalty 0.3 --max-tokens 4 --stop END --stop FIN --no-accel --trust-remote-code -s Short."
    )
    assert run(*arguments.split()).exit_code == 0
    plan, options = backend.plans[0], backend.options[0]
    assert (plan.model, plan.draft, plan.precision, plan.draft_precision) == (
        "some/model",
        "off",
        Precision.NF4,
        Precision.INT8,
    )
    assert (plan.context, plan.device, plan.mode, plan.trust_remote_code) == (512, "cpu", Mode.EXACT, True)
    sampling = options.sampling
    assert (sampling.seed, sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (3, 0, 5, 0.5, 0.1)
    penalties = (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty)
    assert penalties == (1.1, 0.2, 0.3)
    assert (options.max_tokens, options.stop, options.accelerate) == (4, ("END", "FIN"), False)
    assert backend.conversations[0] == Conversation((Message(Role.SYSTEM, "Short."), Message(Role.USER, "Hi")))


def test_a_seed_is_drawn_and_told(run: Run, backend: Scripted) -> None:
    """Guards against a reply that cannot be repeated, and one fixed seed for all (odds of a false alarm 2^-31)."""
    seeds = [json.loads(run("ask", "Hi", "--json").stdout)["seed"] for _ in range(2)]
    assert seeds == [options.sampling.seed for options in backend.options]
    assert seeds[0] != seeds[1]


def test_prompt_joins_words_stdin_and_files(run: Run, backend: Scripted, tmp_path: Path) -> None:
    """Guards against input that is silently dropped."""
    notes = tmp_path / "notes.txt"
    notes.write_text("from a file\n", encoding="utf-8")
    run("ask", "Sum", "up", "-f", str(notes), stdin="from a pipe\n")
    assert backend.conversations[0].messages[0].text == "Sum up\n\nfrom a pipe\n\n--- notes.txt ---\nfrom a file"


def test_dash_reads_stdin(run: Run, backend: Scripted) -> None:
    """Guards against a dash that is taken for the prompt."""
    run("ask", "-", stdin="only this")
    assert backend.conversations[0].messages[0].text == "only this"


@pytest.mark.parametrize(
    ("stdin", "words"), [(b"", "empty"), (b" \n", "empty"), (b"a\0b", "not text"), (b"\xff\xfe", "not UTF-8")]
)
def test_unusable_stdin(run: Run, backend: Scripted, stdin: bytes, words: str) -> None:
    """Guards against binary input that is fed to a model, and against loading a model for nothing."""
    result = run("ask", "-", stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert not backend.plans


def test_missing_file(run: Run, backend: Scripted) -> None:
    """Guards against a traceback for a path that was mistyped."""
    result = run("ask", "Hi", "-f", "/nowhere/at/all")
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


@pytest.mark.parametrize(("kind", "code"), [("generation", 1), ("usage", 2), ("fit", 3), ("model", 4)])
def test_exit_codes_of_loading(run: Run, backend: Scripted, kind: str, code: int) -> None:
    """Guards the promised exit codes."""
    backend.load_failure = Failed(kind, "It does not work.", "Do something else.")
    result = run("ask", "Hi")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "Error: It does not work.\nDo something else.\n"
    assert backend.closed


def test_failure_in_mid_reply_keeps_the_text(run: Run, backend: Scripted) -> None:
    """Guards against text that is lost, or left without a newline, when the engine fails."""
    backend.reply_failure, backend.fail_after = Failed("generation", "Not a number at position 9.", ""), 2
    result = run("ask", "Hi")
    assert (result.exit_code, result.stdout) == (1, "Drafts are g\n")
    assert result.stderr == "Error: Not a number at position 9.\n"


def test_crash_leaves_a_log_and_no_traceback(run: Run, backend: Scripted, home: Path) -> None:
    """Guards against a traceback on the screen and a log that others can read."""
    backend.crash = ZeroDivisionError("\x1b[31mdivision")
    result = run("ask", "Hi")
    log = home / "log" / "localchat.log"
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "\x1b" not in result.output
    assert str(log) in result.stderr
    assert "ZeroDivisionError" in log.read_text(encoding="utf-8")
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.parent.stat().st_mode & 0o777 == 0o700


def test_control_characters_do_not_reach_the_terminal(run: Run, backend: Scripted) -> None:
    """Guards against a model that moves the cursor, sets the clipboard or reverses text."""
    backend.text = "a\x1b]52;c;aGk=\x07b\x9b31mc\u202ed\r\n\te"
    result = run("ask", "Hi", "--draft", "off")
    assert result.stdout == "a␛]52;c;aGk=␇b\ufffd31mc\ufffdd␍\n\te\n"
    raw = run("ask", "Hi", "--json").stdout
    assert raw.isascii()
    assert "\x1b" not in raw
    assert json.loads(raw)["text"] == backend.text


@pytest.mark.parametrize(
    "arguments",
    [
        ("--temperature", "-1"),
        ("--top-p", "1.5"),
        ("--precision", "fp8"),
        ("--device", "tpu"),
        ("--seed", "-2"),
        ("--json", "--jsonl"),
        ("--profile", "none"),
        ("--no-such-option",),
    ],
)
def test_wrong_options(run: Run, backend: Scripted, arguments: tuple[str, ...]) -> None:
    """Guards against a wrong option that is noticed only after a model was loaded, or never."""
    result = run("ask", "Hi", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr
    assert not backend.plans


def test_profile_and_file_are_used(run: Run, backend: Scripted, home: Path) -> None:
    """Guards against settings that only `config show` believes in."""
    write_config(home, 'model = "from/file"\ntemperature = 0.5\n[profiles.cold]\ntemperature = 0\n')
    run("ask", "Hi", "--profile", "cold")
    assert backend.plans[0].model == "from/file"
    assert backend.options[0].sampling.temperature == 0


def test_what_libraries_say_goes_to_the_log(run: Run, backend: Scripted, home: Path) -> None:
    """Guards against a traceback that reaches the screen through `logging`, or a library's warning in the answer."""

    def talk() -> None:
        logging.getLogger("some.library").warning("half a page of advice")
        warnings.warn("more advice", stacklevel=1)

    backend.on_reply = talk
    result = run("ask", "Hi")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Drafts are guesses.\n", "")
    log = (home / "log" / "localchat.log").read_text(encoding="utf-8")
    assert "half a page of advice" in log
    assert "more advice" in log
