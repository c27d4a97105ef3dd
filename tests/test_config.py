"""Settings: where a value comes from, and what is said about a wrong one."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import pytest

from localchat import config, paths
from localchat.engine.types import Sampling
from localchat.errors import UsageError
from localchat.models.plan import Mode, Precision

FILE = """\
temperature = 0.1
top_k = 1
profile = "code"

[profiles.code]
top_k = 2
seed = 2

[profiles.prose]
top_k = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> config.File:
    """A config file with two profiles."""
    path = tmp_path / "config.toml"
    path.write_text(FILE, encoding="utf-8")
    return config.read(path)


def test_precedence(file: config.File) -> None:
    """Guards the order flag > environment > profile > file > default, and that each source is told."""
    environment = {"LOCALCHAT_SEED": "3", "LOCALCHAT_MIN_P": "0.3"}
    resolved = config.resolve(file, environment, {"min_p": 0.4})
    settings, sources = resolved.settings, dict(resolved.sources)
    assert (settings.min_p, settings.seed, settings.top_k, settings.temperature) == (0.4, 3, 2, 0.1)
    assert settings.top_p == 1.0
    assert sources["min_p"] == "typed --min-p"
    assert sources["seed"] == "environment LOCALCHAT_SEED"
    assert sources["top_k"] == f"profile code, {file.path}:6"
    assert sources["temperature"] == f"{file.path}:1"
    assert sources["top_p"] == "default"


def test_profile_by_flag_and_by_environment(file: config.File) -> None:
    """Guards against a profile that can only be chosen in the file."""
    assert config.resolve(file, {}, {}, "prose").settings.top_k == 3
    assert config.resolve(file, {"LOCALCHAT_PROFILE": "prose"}, {}).settings.top_k == 3
    assert config.resolve(file, {"LOCALCHAT_PROFILE": "prose"}, {}, "code").settings.top_k == 2


@pytest.mark.parametrize(
    ("text", "place", "allowed"),
    [
        ("temperature = -1", ":1: temperature", "0 or more"),
        ("\ntop_p = 0", ":2: top_p", "above 0 to 1"),
        ('seed = "x"', ":1: seed", "a whole number"),
        ("seed = 1.5", ":1: seed", "a whole number"),
        ("accelerate = 1", ":1: accelerate", "true or false"),
        ('precision = "nf8"', ":1: precision", "nf4"),
        ("stop = [1]", ":1: stop", "a list of texts"),
        ("temprature = 1", ":1", "temprature"),
        ('[profiles.a]\nseed = 1\n[profiles.b]\nseed = "x"', ":4: seed", "a whole number"),
        ('profile = "none"', ":1", "none"),
        ("profiles = 3", ":1", "tables"),
        ("seed = = 1", "", "not valid TOML"),
    ],
)
def test_wrong_values_name_file_line_and_what_is_allowed(tmp_path: Path, text: str, place: str, allowed: str) -> None:
    """Guards against an error that leaves the user searching."""
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        config.read(path)
    assert f"{path}{place}" in caught.value.message
    assert allowed in caught.value.message
    assert caught.value.hint


def test_wrong_environment_is_named(tmp_path: Path) -> None:
    """Guards against an environment variable that is dropped in silence."""
    with pytest.raises(UsageError, match=r"LOCALCHAT_TOP_K.*whole number"):
        config.resolve(config.read(tmp_path / "none.toml"), {"LOCALCHAT_TOP_K": "many"}, {})
    with pytest.raises(UsageError, match=r"LOCALCHAT_ACCELERATE.*true or false"):
        config.resolve(config.read(tmp_path / "none.toml"), {"LOCALCHAT_ACCELERATE": "maybe"}, {})


def test_environment_in_every_kind(tmp_path: Path) -> None:
    """Guards the reading of booleans, numbers and lists from text."""
    environment = {
        "LOCALCHAT_ACCELERATE": "off",
        "LOCALCHAT_TOP_P": "1",
        "LOCALCHAT_STOP": "END",
        "LOCALCHAT_MODEL": "",
    }
    settings = config.resolve(config.read(tmp_path / "none.toml"), environment, {}).settings
    assert (settings.accelerate, settings.top_p, settings.stop, settings.model) == (False, 1.0, ("END",), "starter")


def test_choices_are_those_of_the_plan() -> None:
    """Guards against a leaf's copy of the choices that drifts from the original."""
    assert tuple(Precision) == config.PRECISIONS
    assert tuple(Mode) == config.MODES


@pytest.mark.parametrize("key", ["temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty"])
@pytest.mark.parametrize("value", [-3, -2, -1, 0, 1, 1.5, 2, 2.5, float("inf"), float("nan")])
def test_bounds_are_those_of_the_engine(tmp_path: Path, key: str, value: float) -> None:
    """Guards against a value that the settings let through and the engine refuses, or the other way round."""
    number = int(value) if key == "top_k" and math.isfinite(value) else value

    def allowed() -> bool:
        try:
            config.resolve(config.File(tmp_path), {}, {key: number})
        except UsageError:
            return False
        return True

    def possible() -> bool:
        try:
            Sampling(**{key: number})  # type: ignore[arg-type]
        except ValueError:
            return False
        return True

    if key != "top_k" or isinstance(number, int):
        assert allowed() == possible() or (not allowed() and not math.isfinite(value))


def test_template_is_a_valid_file_with_every_key(tmp_path: Path) -> None:
    """Guards against a template that breaks when its lines are used."""
    used = "\n".join(
        line[2:] if " = " in line and line.startswith("# ") else line for line in config.template().split("\n")
    )
    used = used.replace("# [profiles.code]", "[profiles.code]").replace("# [keys]", "[keys]")
    path = tmp_path / "config.toml"
    path.write_text(used, encoding="utf-8")
    assert set(tomllib.loads(used)) == {*config.RULES, "profile", "profiles", "keys"}
    assert config.read(path).keys == (("compare", "f3,alt+c"),)
    assert config.resolve(config.read(path), {}, {}).settings.top_p == 1.0


def test_keys_are_read(tmp_path: Path) -> None:
    """Guards the [keys] table: texts by action, and a value of another kind is refused with its place."""
    path = tmp_path / "config.toml"
    path.write_text('seed = 1\n[keys]\ncompare = "f7"\n', encoding="utf-8")
    assert config.read(path).keys == (("compare", "f7"),)
    for wrong in ("keys = 3", "[keys]\ncompare = 7", "[keys.compare]\nx = 'y'"):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(UsageError, match="keys"):
            config.read(path)


WRITTEN = """\
# mine
temperature = 0.1   # low

[profiles.code]
# quiet
seed = 2
# temperature = 0.4

[keys]
compare = "f7"  # free here
"""


def test_writing_changes_the_keys_and_nothing_else(tmp_path: Path) -> None:
    """Guards the user's own comments, order, profiles and keys."""
    path = tmp_path / "config.toml"
    path.write_text(WRITTEN, encoding="utf-8")
    config.write(path, {"temperature": 0.5, "theme": "light", "stop": ("END",), "accelerate": False})
    text = path.read_text(encoding="utf-8")
    assert "temperature = 0.5   # low" in text
    assert text.startswith("# mine\n")
    assert '[profiles.code]\n# quiet\nseed = 2\n# temperature = 0.4\n\n[keys]\ncompare = "f7"  # free here\n' in text
    values = dict(config.read(path).values)
    assert values == {"temperature": 0.5, "theme": "light", "stop": ("END",), "accelerate": False}
    assert path.stat().st_mode & 0o777 == 0o600


def test_writing_a_profile(tmp_path: Path) -> None:
    """Guards profiles: an old one is changed, a new one is made, the one to use is kept, names may be any text."""
    path = tmp_path / "config.toml"
    path.write_text(WRITTEN, encoding="utf-8")
    config.write(path, {"seed": 3, "context": 100}, "code")
    config.write(path, {"draft": "off"}, "my pair")
    config.write(path, {"profile": "my pair"})
    file = config.read(path)
    assert file.profile == "my pair"
    assert dict(file.profiles) == {"code": (("seed", 3), ("context", 100)), "my pair": (("draft", "off"),)}
    assert dict(file.values) == {"temperature": 0.1}
    assert "# quiet" in path.read_text(encoding="utf-8")


def test_a_new_file_is_the_template_with_the_keys_in_their_places(tmp_path: Path) -> None:
    """Guards against a first change that ends in a bare file, or far from the line that explains it."""
    path = tmp_path / "new" / "config.toml"
    config.write(path, {"theme": "light"})
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[lines.index('theme = "light"') - 1].startswith("# The screen's theme.")
    assert '# theme = "dark"' not in lines
    assert "# temperature = 0.7" in lines
    config.write(path, {"seed": 1}, "code")
    config.write(path, {"seed": 4})
    assert dict(config.read(path).values) == {"theme": "light", "seed": 4}


@pytest.mark.parametrize(
    ("text", "values"),
    [("temperature = ", {"seed": 1}), ("", {"seed": "x"}), ("", {"sead": 1}), ("", {"profile": "none"})],
)
def test_nothing_is_written_if_the_file_or_a_value_is_wrong(
    tmp_path: Path, text: str, values: dict[str, config.Value]
) -> None:
    """Guards a file that the user is in the middle of mending."""
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        config.write(path, values)
    assert path.read_text(encoding="utf-8") == text


def test_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    """Guards those who keep their settings in a repository and link to them."""
    real = tmp_path / "real.toml"
    real.write_text("seed = 1\n", encoding="utf-8")
    link = tmp_path / "config.toml"
    link.symlink_to(real)
    config.write(link, {"seed": 2})
    assert link.is_symlink()
    assert dict(config.read(real).values) == {"seed": 2}


def test_private_files_are_whole_or_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against half a file after a full disk, and against files that others can read."""
    target = tmp_path / "new" / "file"
    paths.write_private(target, "old")
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.parent.stat().st_mode & 0o777 == 0o700

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        paths.write_private(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_home_moves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against tests (and portable installations) that write into the user's own folders."""
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path))
    places = (paths.config_file(), paths.data_dir(), paths.cache_dir(), paths.log_file())
    assert all(place.is_relative_to(tmp_path) for place in places)
