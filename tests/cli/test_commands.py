"""The other commands: compare, bench, models, fit, config, themes, doctor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from localchat import __version__
from localchat.chat.events import Failed, LoadEvent
from localchat.cli import doctor as doctor_module
from localchat.models.plan import LoadPlan
from localchat.models.starter import TARGET
from tests.cli.conftest import Run, write_config
from tests.support.backend import Scripted
from tests.support.models import write_safetensors
from tests.support.shelf_heads import put_head


def test_no_command_needs_a_terminal(run: Run) -> None:
    """Guards scripts and pipes: no escape codes and no hang, but the command that suits them."""
    result = run()
    assert result.exit_code == 2
    assert "localchat ask" in result.stderr
    assert not result.stdout


def test_version(run: Run) -> None:
    """Guards against a version that costs more than a line."""
    assert run("--version").stdout == f"localchat {__version__}\n"


@pytest.mark.parametrize("command", ["ask", "compare", "bench", "train", "models", "fit", "config", "themes", "doctor"])
def test_help_everywhere(run: Run, command: str) -> None:
    """Guards against a command that cannot explain itself, and against escape sequences in a pipe."""
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    assert "\x1b" not in result.stdout


def test_unknown_command_suggests(run: Run) -> None:
    """Guards the exit code of a typing error."""
    result = run("aks", "Hi")
    assert result.exit_code == 2
    assert "ask" in result.stderr


def test_compare_shows_both_sides(run: Run, backend: Scripted) -> None:
    """Guards against a race in which the second run copies from the first, or has another seed."""
    result = run("compare", "Hi", "-n", "2", "--json")
    record = json.loads(result.stdout)
    assert record["identical"] is True
    assert record["repeats"] == 2
    assert record["speedup"] == pytest.approx(30 / 11 * 10 / 12, rel=0.05)  # 10 tokens in 4 rounds of 11 ms
    assert record["plain"]["accelerated"] is False
    assert record["accelerated"]["accelerated"] is True
    assert {options.sampling.seed for options in backend.options} == {record["seed"]}
    assert all(options.fresh for options in backend.options)
    table = run("compare", "Hi").stdout
    assert "the speed of plain decoding" in table
    assert "the same, token for token" in table


def test_compare_tells_where_texts_part(run: Run, backend: Scripted) -> None:
    """Guards against a difference that is hidden, and against one that is called a tie without reason."""
    backend.accelerated_text = "Drafts are gifts."
    assert "a bug" in run("compare", "Hi").stdout
    assert json.loads(run("compare", "Hi", "--json").stdout)["identical"] is False
    backend.margin = 0.0
    record = json.loads(run("compare", "Hi", "--json").stdout)
    assert (record["identical"], record["first_difference"]) == ("tie", 6)


def test_bench_ends_in_one_json_line(run: Run, backend: Scripted) -> None:
    """Guards the schema of the bench and its plain baseline."""
    result = run("bench", "-n", "1", "--json", "--draft", "lookup", "--categories", "short answer,question answering")
    assert result.exit_code == 0
    record = json.loads(result.stdout.splitlines()[-1])
    assert set(record) >= {"device", "versions", "target", "results"}
    assert [(row["category"], row["drafter"]) for row in record["results"]] == [
        (kind, drafter) for kind in ("short answer", "question answering") for drafter in ("off", "lookup")
    ]
    names = {
        "category", "drafter", "tokens_per_second", "speedup", "identical", "tokens_per_round", "acceptance_rate",
        "acceptance_by_position", "ttft_seconds", "draft_share", "verify_share", "host_share", "predicted_speedup",
        "peak_memory_bytes",
    }  # fmt: skip
    assert all(set(row) >= names for row in record["results"])
    assert record["results"][0]["speedup"] == 1.0
    assert record["results"][1]["predicted_speedup"] == pytest.approx(2.0)


@pytest.mark.parametrize("arguments", [("--draft", "nonsense"), ("--categories", "poems"), ("--form", "verse")])
def test_bench_refuses_unknown_words(run: Run, backend: Scripted, arguments: tuple[str, ...]) -> None:
    """Guards against a bench of nothing."""
    assert run("bench", "-n", "1", *arguments).exit_code == 2


def test_models_list_and_show(run: Run, tmp_path: Path) -> None:
    """Guards against a listing that a broken folder brings down."""
    broken = tmp_path / "models" / "broken"
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("{", encoding="utf-8")
    listed = json.loads(run("models", "list", str(tmp_path / "models"), "--json").stdout)
    assert {"starter", "starter-draft", str(broken)} <= {model["name"] for model in listed}
    assert next(model for model in listed if model["name"] == str(broken))["problem"]
    shown = json.loads(run("models", "show", "starter", "--json").stdout)
    assert shown["weight_bytes"]["nf4"] < shown["weight_bytes"]["bf16"] < shown["weight_bytes"]["fp32"]
    assert "starter-draft" in run("models", "show", "starter").stdout


def test_models_pair(run: Run) -> None:
    """Guards the verdicts on a good pair and on a model with itself."""
    good = run("models", "pair", "starter", "starter-draft", "--json")
    assert (good.exit_code, json.loads(good.stdout)["ok"]) == (0, True)
    same = run("models", "pair", "starter", "starter")
    assert same.exit_code == 4
    assert "FAIL" in same.stdout


def test_missing_models(run: Run, tmp_path: Path) -> None:
    """Guards exit code 4 and a hint for a model that is not there."""
    for arguments in (("models", "show", "no/such"), ("fit", "no/such"), ("models", "pull", "not-an-id")):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (4, "")
        assert result.stderr.count("\n") == 2


def test_fit(run: Run) -> None:
    """Guards the answer before a download, and exit code 3 for what cannot fit."""
    fits = run("fit", "starter", "--precision", "fp32", "--context", "1024", "--device", "cpu", "--json")
    record = json.loads(fits.stdout)
    assert fits.exit_code == 0
    assert [plan["precision"] for plan in record["plans"]] == ["fp32"]
    assert record["plans"][0]["fits"]
    assert record["draft"] == "starter-draft"
    large = run("fit", "Qwen/Qwen2.5-72B-Instruct", "--precision", "fp32", "--device", "cpu")
    assert large.exit_code == 3
    assert "missing" in large.stdout


def test_config_commands(run: Run, home: Path) -> None:
    """Guards what is told about the settings against what is used."""
    assert json.loads(run("config", "path", "--json").stdout)["exists"] is False
    file = write_config(home, "seed = 5\n")
    assert run("config", "path").stdout.strip() == str(file)
    shown = json.loads(run("config", "show", "--json").stdout)
    assert shown["seed"] == {"value": 5, "source": f"{file}:1"}
    assert run("config", "validate").exit_code == 0
    write_config(home, "sed = 5\n")
    result = run("config", "validate")
    assert result.exit_code == 2
    assert "seed" in result.stderr


def test_config_edit_starts_with_a_template(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an empty file to edit, and against a file that others can read."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    assert run("config", "edit").exit_code == 0
    file = home / "config" / "config.toml"
    assert "# temperature = 0.7" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o600


def test_themes(run: Run, tmp_path: Path) -> None:
    """Guards the shipped themes, and that all problems of a broken one are told at once."""
    names = {theme["name"]: theme for theme in json.loads(run("themes", "list", "--json").stdout)}
    assert {"dark", "light"} <= set(names)
    assert all(theme["valid"] for theme in names.values())
    broken = tmp_path / "x.toml"
    broken.write_text('name = "x"\n[colours]\ntext = "red"\nextra = "#000000"\n', encoding="utf-8")
    result = run("themes", "validate", str(broken))
    assert result.exit_code == 2
    assert all(word in result.stdout for word in ("dark must be", "colours.text", "colours.extra", "colours.accent"))


def test_doctor_is_well(run: Run) -> None:
    """Guards the schema, and that a working machine is called one."""
    result = run("doctor", "--json")
    checks = json.loads(result.stdout)["checks"]
    assert result.exit_code == 0
    assert all(set(check) == {"name", "status", "detail", "fix"} for check in checks)
    assert {check["status"] for check in checks} <= {"ok", "warn"}
    assert {"torch", "memory", "config", "folders", "starter pair"} <= {check["name"] for check in checks}


def test_doctor_finds_what_is_wrong(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards against a doctor that says all is well, or falls over with the patient."""
    write_config(home, "sed = 5\n")
    damaged = tmp_path / "starter"
    shutil.copytree(TARGET, damaged)
    (damaged / "model.safetensors").write_bytes(b"short")
    monkeypatch.setattr("localchat.models.folders.find_model", lambda _: type("Source", (), {"folder": damaged}))
    result = run("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert result.exit_code == 1
    assert checks["config"]["status"] == checks["starter pair"]["status"] == doctor_module.Status.FAIL
    assert checks["config"]["fix"]


@pytest.fixture
def heads(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An EAGLE and a Medusa head for the starter, made here, and no others; returns their folder."""
    monkeypatch.setattr("localchat.models.heads.STARTER_HEADS", ())
    folder = home / "data" / "heads"
    put_head(folder / "an-eagle", "eagle", TARGET, name="starter", acceptance=[[0.7, 0.1], [0.5, 0.2]])
    put_head(folder / "medusa", "medusa", TARGET, name="starter", changed=True)
    return folder


def test_bench_loads_each_draft_model_and_head(run: Run, backend: Scripted, heads: Path) -> None:
    """Guards a bench over several loads: one for each part, plain beside it in each, lookup once; names keep apart."""
    assert heads.is_dir()
    result = run("bench", "-n", "1", "--json", "--categories", "question answering")
    assert result.exit_code == 0
    own = [plan.draft_model for plan in backend.plans]
    assert own[:3] == ["starter-draft", "an-eagle", "medusa"]
    assert {plan.draft for plan in backend.plans} == {"mixed"}
    assert {plan.mode for plan in backend.plans[1:]} == {backend.loaded(backend.plans[0]).plan.mode}
    methods = [row["drafter"] for row in json.loads(result.stdout.splitlines()[-1])["results"]]
    assert methods[:9] == ["off", "lookup", "model", "mixed", "off", "eagle", "mixed", "off", "medusa"]
    assert "Times the speed of plain decoding:" in result.stdout


@pytest.mark.parametrize(
    ("asked", "loads"),
    [
        (("eagle",), [("mixed", "an-eagle", ["off", "eagle"])]),
        (("lookup",), [("lookup", "", ["off", "lookup"])]),
        (("medusa", "lookup"), [("mixed", "medusa", ["off", "lookup", "medusa"])]),
        (("an-eagle",), [("mixed", "an-eagle", ["off", "eagle", "mixed"])]),
        (("mixed", "starter-draft"), [("mixed", "starter-draft", ["off", "mixed"])]),
    ],
)
def test_bench_loads_what_is_asked_for(
    run: Run, backend: Scripted, heads: Path, asked: tuple[str, ...], loads: list[tuple[str, str, list[str]]]
) -> None:
    """Guards --draft of the bench: kinds choose among the parts, names bring their own, nothing else is loaded."""
    assert heads.is_dir()
    names = [word for name in asked for word in ("--draft", name)]
    result = run("bench", "-n", "1", "--json", "--categories", "question answering", *names)
    results = json.loads(result.stdout.splitlines()[-1])["results"]
    found = [(plan.draft, plan.draft_model, [row["drafter"] for row in results]) for plan in backend.plans]
    assert found == loads


def test_bench_goes_on_without_a_head_that_cannot_be_loaded(run: Run, backend: Scripted, heads: Path) -> None:
    """Guards a long bench against one bad head: it is left out with a remark; asked for by name, it is the failure."""
    load = backend.load

    def refusing(plan: LoadPlan) -> Iterator[LoadEvent]:
        return (
            iter((Failed("model", "It is damaged.", "Train it again."),))
            if plan.draft_model == heads.name
            else load(plan)
        )

    put_head(heads / heads.name, "eagle", TARGET, name="starter")
    backend.load = refusing  # type: ignore[method-assign]
    result = run("bench", "-n", "1", "--json", "--categories", "question answering")
    assert result.exit_code == 0
    assert "Note: heads is left out: It is damaged." in result.stderr
    assert run("bench", "-n", "1", "--categories", "question answering", "--draft", heads.name).exit_code == 4


def test_models_list_and_show_heads(run: Run, heads: Path) -> None:
    """Guards the listing of heads: kind, target, acceptance in training, and a remark where the target has changed."""
    (heads / "broken").mkdir()
    (heads / "broken" / "config.json").write_text('{"localchat_head": {}}', encoding="utf-8")
    listed = {model["name"]: model for model in json.loads(run("models", "list", "--json").stdout)}
    assert listed["starter"]["kind"] == "model"
    assert listed["an-eagle"]["kind"] == "eagle"
    assert listed["an-eagle"]["target"] == "starter"
    assert listed["an-eagle"]["acceptance"] == [[0.7, 0.1], [0.5, 0.2]]
    assert (listed["medusa"]["problem"], listed["medusa"]["remark"]) == ("", "its target has changed since")
    assert listed["broken"]["problem"]
    table = run("models", "list").stdout
    assert "70 50 %" in table
    shown = run("models", "show", "an-eagle").stdout
    assert "70 10 %" in shown
    assert "1000000" in shown
    assert json.loads(run("models", "show", "an-eagle", "--json").stdout)["trained"]["minutes"] == 40
    assert "an-eagle" in json.loads(run("models", "show", "starter", "--json").stdout)["drafts"]


def test_models_pair_of_a_head(run: Run, heads: Path) -> None:
    """Guards the verdict on a head: it suits its target, changed weights are a warning."""
    assert heads.is_dir()
    good = run("models", "pair", "starter", "an-eagle", "--json")
    assert (good.exit_code, json.loads(good.stdout)["ok"]) == (0, True)
    changed = run("models", "pair", "starter", "medusa")
    assert changed.exit_code == 0
    assert "target has changed" in changed.stdout


def test_models_rm_asks_and_removes_only_what_was_made_here(run: Run, heads: Path) -> None:
    """Guards against a lost model: nothing goes without a yes, what is built in stays, and just one folder goes."""
    kept = run("models", "rm", "an-eagle", stdin="n\n")
    assert kept.exit_code == 1
    assert (heads / "an-eagle").is_dir()
    assert run("models", "rm", "starter", "--yes").exit_code == 2
    assert TARGET.is_dir()
    gone = run("models", "rm", "an-eagle", "--yes", "--json")
    assert json.loads(gone.stdout)["removed"] == "an-eagle"
    assert not (heads / "an-eagle").exists()
    assert (heads / "medusa").is_dir()
    assert run("models", "rm", "medusa", stdin="y\n").exit_code == 0
    assert run("models", "rm", "medusa", "--yes").exit_code == 4


def test_fit_of_a_head(run: Run, heads: Path) -> None:
    """Guards the plan of a head: by kind or by name, stored as the target is, and none where there is none."""
    assert heads.is_dir()
    options = ("--precision", "fp32", "--context", "1024", "--device", "cpu", "--json")
    by_kind = json.loads(run("fit", "starter", "--draft", "eagle", *options).stdout)
    by_name = json.loads(run("fit", "starter", "--draft", "an-eagle", "--draft-precision", "nf4", *options).stdout)
    assert by_kind["draft"] == by_name["draft"] == "an-eagle"
    assert by_kind["plans"][0]["draft_bytes"] == by_name["plans"][0]["draft_bytes"] == 4 * 868608
    assert run("fit", "starter", "--draft", "mtp", *options).exit_code == 4
    assert run("fit", "Qwen/Qwen3-8B", "--draft", "eagle", *options).exit_code == 4


def test_doctor_knows_the_heads(run: Run, heads: Path) -> None:
    """Guards against a broken head that nobody hears of."""
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["heads"]["detail"] == "2 (an-eagle, medusa)"
    (heads / "medusa" / "model.safetensors").write_bytes(b"short")
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["heads"]["status"] == "warn"
    assert "localchat models rm medusa" in checks["heads"]["fix"]


def test_pull_takes_heads_in_their_own_files(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards published heads whose weights are not in model.safetensors, and says what a pickle alone means."""
    folder = tmp_path / "head"
    folder.mkdir()
    (folder / "config.json").write_text('{"medusa_num_heads": 1}', encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(folder))
    empty = run("models", "pull", "some/medusa")
    assert empty.exit_code == 4
    assert "such as a pickle" in empty.stderr
    write_safetensors(folder / "medusa_lm_head.safetensors", {"0.0.linear.weight": (8, 8)})
    assert run("models", "pull", "some/medusa").stdout.strip() == str(folder)
