"""Settings: typed flag > environment > profile > file > default, each value with the place it comes from.

A leaf. `Settings` is the one list of keys: its fields are the keys of the file, `LOCALCHAT_<KEY>` in the environment
and the long options of the command line, and their metadata is what is allowed.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from localchat import paths
from localchat.errors import UsageError

T = TypeVar("T", str, int, float, bool, tuple[str, ...])
Value = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a key means and which values it takes; numbers lie within [low, high], unless an end is left out."""

    meaning: str
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    """The low end itself is not allowed."""
    below: bool = False
    """The high end itself is not allowed."""

    def problem(self, value: Value) -> str:
        """What is wrong with a value of the right type, or nothing."""
        if self.choices and value not in self.choices:
            near = difflib.get_close_matches(str(value), self.choices, n=1)
            return f"must be one of {', '.join(self.choices)}" + (f" (did you mean {near[0]}?)" if near else "")
        if isinstance(value, int | float) and not isinstance(value, bool):
            low = value > self.low if self.above else value >= self.low
            high = value < self.high if self.below else value <= self.high
            if not (low and high):
                return f"must be {self.bounds()}"
        return ""

    def bounds(self) -> str:
        """The allowed numbers in words, or nothing."""
        low, high = _number(self.low), _number(self.high)
        if high == "inf":
            return "" if low == "-inf" else f"above {low}" if self.above else f"{low} or more"
        start = f"above {low}" if self.above else f"from {low}"
        return f"{start} to below {high}" if self.below else f"{start} to {high}"


def _number(value: float) -> str:
    return f"{value:g}" if abs(value) < 10**6 or math.isinf(value) else str(int(value))


def _key(default: T, rule: Rule) -> T:
    return field(default=default, metadata={"rule": rule})


PRECISIONS = ("auto", "nf4", "int8", "bf16", "fp16", "fp32")
MODES = ("auto", "exact", "fast")
METHODS = ("auto", "off", "lookup", "model", "mixed", "medusa", "eagle", "mtp")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, with its default."""

    model: str = _key("starter", Rule("The model that answers: starter, a hub id, a folder or a GGUF file."))
    draft: str = _key("auto", Rule(f"How to draft: {', '.join(METHODS)}, or a model's or head's name, id or folder."))
    draft_model: str = _key("", Rule("The draft model or head that --draft uses, if not the first that suits."))
    precision: str = _key("auto", Rule("How the model's weights are stored.", choices=PRECISIONS))
    draft_precision: str = _key("auto", Rule("How the draft model's weights are stored.", choices=PRECISIONS))
    context: int = _key(0, Rule("Tokens a conversation may hold; 0: the most that fits, up to 8192.", low=0))
    device: str = _key("auto", Rule("auto, cpu, cuda or cuda:N."))
    mode: str = _key("auto", Rule("exact: the same text with and without drafts. fast: any width.", choices=MODES))
    accelerate: bool = _key(True, Rule("Draft at all; off is plain decoding."))
    system: str = _key("", Rule("The system message."))
    temperature: float = _key(0.7, Rule("0 is greedy; higher is more varied.", low=0, high=math.inf, below=True))
    top_k: int = _key(0, Rule("Keep the k most likely tokens; 0: off.", low=0))
    top_p: float = _key(1.0, Rule("Keep the most likely tokens up to this share; 1: off.", low=0, above=True, high=1))
    min_p: float = _key(0.0, Rule("Drop tokens below this share of the likeliest; 0: off.", low=0, high=1, below=True))
    repetition_penalty: float = _key(
        1.0, Rule("Above 1 makes repeats less likely.", low=0, above=True, high=math.inf, below=True)
    )
    presence_penalty: float = _key(0.0, Rule("Taken off tokens that were said.", low=-2, high=2))
    frequency_penalty: float = _key(0.0, Rule("Taken off tokens for each time they were said.", low=-2, high=2))
    seed: int = _key(-1, Rule("The same seed gives the same text; -1: a new one each time.", low=-1, high=2**63 - 1))
    max_tokens: int = _key(0, Rule("Longest reply in tokens; 0: until the model stops.", low=0))
    stop: tuple[str, ...] = _key((), Rule("Texts that end the reply."))
    theme: str = _key("dark", Rule("The screen's theme."))
    mouse: bool = _key(True, Rule("Use the mouse; off, the terminal selects text itself."))


RULES: dict[str, Rule] = {key.name: key.metadata["rule"] for key in fields(Settings)}
"""The rule of every key."""

DEFAULTS: dict[str, Value] = {key.name: cast(Value, key.default) for key in fields(Settings)}
"""The default of every key."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings and the place each comes from."""

    settings: Settings
    sources: tuple[tuple[str, str], ...]
    """(key, source) for every key, in the order of `Settings`."""
    profile: str


_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _parse(key: str, text: str) -> object:
    """A value from the environment; what cannot be read is returned as it is, for `_checked` to refuse."""
    kind = type(DEFAULTS[key])
    if kind is tuple:
        return [text]
    if kind is bool:
        return _WORDS.get(text.strip().lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


def _checked(key: str, value: object, place: str) -> Value:
    """The value in the key's own type.

    Raises:
        UsageError: wrong type or out of range; names the place and says what is allowed.
    """
    kind = type(DEFAULTS[key])
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is tuple and isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = tuple(value)
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false", tuple: "a list of texts"}
    limits = RULES[key]
    if isinstance(value, str | int | float | bool | tuple) and type(value) is kind:
        problem = limits.problem(value)
        if not problem:
            return value
    else:
        bounds = limits.bounds()
        problem = f"must be {names[kind]}" + (f", {bounds}" if bounds else "")
    raise UsageError(f"{place}: {problem}, not {value!r}.", limits.meaning)


def _unknown(name: str, known: tuple[str, ...], place: str) -> UsageError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(known)}."
    return UsageError(f"{place}: there is no key {name!r}.", hint)


@dataclass(frozen=True, slots=True)
class File:
    """A config file that was read and checked: every value is in its key's type."""

    path: Path
    values: tuple[tuple[str, Value], ...] = ()
    profiles: tuple[tuple[str, tuple[tuple[str, Value], ...]], ...] = ()
    profile: str = ""
    """The profile used when none is asked for."""
    keys: tuple[tuple[str, str], ...] = ()
    """(action, its keys) of the [keys] table, as written: `localchat.tui.keymap` knows the actions."""
    text: str = ""

    def place(self, key: str, profile: str = "") -> str:
        """`path:line` of a key."""
        return f"{self.path}:{_line(self.text, key, profile)}"


def _line(text: str, key: str, profile: str = "") -> int:
    """The line of a key; tomllib does not tell. 1 if it is written in a way this does not recognise."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*profiles\s*\.\s*[\"']?([^\"'\]]+?)[\"']?\s*\]", line):
            table = header[1]
        elif table == profile and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return 1


def read(path: Path) -> File:
    """Read and check a config file; a missing one is empty.

    Raises:
        UsageError: unreadable, not TOML, an unknown key or a value that is not allowed, with file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return File(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", "Make it a readable UTF-8 text file.") from error
    return parse(path, text)


def parse(path: Path, text: str) -> File:
    """Check the text of a config file; `path` is only named.

    Raises:
        UsageError: not TOML, an unknown key or a value that is not allowed, with file and line.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.", "`localchat config edit` opens it.") from error
    profiles, chosen, keys = table.pop("profiles", {}), table.pop("profile", ""), table.pop("keys", {})
    if not isinstance(profiles, dict) or not all(isinstance(values, dict) for values in profiles.values()):
        raise UsageError(f"{path}:{_line(text, 'profiles')}: profiles are tables.", "Write [profiles.NAME].")
    if not isinstance(keys, dict) or not all(isinstance(value, str) for value in keys.values()):
        raise UsageError(f"{path}: [keys] holds texts.", 'Write, for example, compare = "f7,ctrl+t".')
    found = File(
        path,
        _section(path, text, table, ""),
        tuple((name, _section(path, text, values, name)) for name, values in profiles.items()),
        chosen if isinstance(chosen, str) else str(chosen),
        tuple(keys.items()),
        text,
    )
    if found.profile and found.profile not in profiles:
        raise _no_profile(found.profile, found, found.place("profile"))
    return found


def _section(path: Path, text: str, table: Mapping[str, object], profile: str) -> tuple[tuple[str, Value], ...]:
    values = []
    for key, value in table.items():
        place = f"{path}:{_line(text, key, profile)}"
        if key not in RULES:
            extra = () if profile else ("profile", "profiles", "keys")
            raise _unknown(key, (*RULES, *extra), place)
        values.append((key, _checked(key, value, f"{place}: {key}")))
    return tuple(values)


def _no_profile(name: str, file: File, place: str) -> UsageError:
    names = ", ".join(known for known, _ in file.profiles)
    return UsageError(
        f"{place}: there is no profile {name!r}.",
        f"Profiles in {file.path}: {names}." if names else f"Add [profiles.{name}] to {file.path}.",
    )


_FLAGS = {"accelerate": "--no-accel", "mouse": "--no-mouse", "mode": "--exact/--fast"}


def flag(key: str) -> str:
    """How the command line spells a key."""
    return _FLAGS.get(key, f"--{key.replace('_', '-')}")


def resolve(file: File, environment: Mapping[str, str], flags: Mapping[str, object], profile: str = "") -> Resolved:
    """Settle every key by precedence.

    Args:
        file: the config file as read.
        environment: variables named LOCALCHAT_<KEY> are used; empty ones are not.
        flags: what was typed, by key; a key that was not typed is missing.
        profile: its name as typed, or nothing.

    Raises:
        UsageError: a value that is not allowed, or a profile that does not exist.
    """
    wanted = profile or environment.get("LOCALCHAT_PROFILE", "") or file.profile
    profiles = dict(file.profiles)
    if wanted and wanted not in profiles:
        raise _no_profile(wanted, file, "--profile" if profile else "LOCALCHAT_PROFILE")
    values = dict(DEFAULTS)
    sources = dict.fromkeys(RULES, "default")
    for key, value in file.values:
        values[key], sources[key] = value, file.place(key)
    for key, value in profiles.get(wanted, ()):
        values[key], sources[key] = value, f"profile {wanted}, {file.place(key, wanted)}"
    for key in RULES:
        name = f"LOCALCHAT_{key.upper()}"
        if text := environment.get(name, ""):
            values[key], sources[key] = _checked(key, _parse(key, text), name), f"environment {name}"
        if key in flags:
            values[key], sources[key] = _checked(key, flags[key], flag(key)), f"typed {flag(key)}"
    settings = Settings(**cast("dict[str, Any]", values))
    return Resolved(settings, tuple(sources.items()), wanted)


def template() -> str:
    """A config file in which every key stands, commented out, with its meaning and default."""
    lines = ["# localchat's settings. A line counts once its # is taken away.", ""]
    for key in RULES:
        limits = RULES[key]
        allowed = ", ".join(limits.choices) or limits.bounds()
        lines += [f"# {limits.meaning}" + (f" Allowed: {allowed}." if allowed else "")]
        lines += [f"# {key} = {toml(DEFAULTS[key])}", ""]
    lines += ["# A profile is a set of keys with a name, chosen by --profile, LOCALCHAT_PROFILE or here."]
    lines += ['# profile = "code"', "", "# [profiles.code]", "# temperature = 0.0", ""]
    lines += ['# Keys of the screen: an action\'s name, which F1 shows, and its keys; "none" is no key.']
    lines += ["# [keys]", '# compare = "f3,alt+c"', ""]
    return "\n".join(lines)


def toml(value: Value) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(toml(item) for item in value)}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return str(value)


def write(path: Path, values: Mapping[str, Value], profile: str = "") -> None:
    """Set keys of a config file and leave everything else in it as it is, comments too; a new file is a template.

    Args:
        path: the config file; a link to it stays a link.
        values: what to set. `profile`, the profile used when none is asked for, may be among them.
        profile: the profile they belong to, made if it is new; the file itself if empty.

    Raises:
        UsageError: the file is broken as it stands, or a value is not allowed; nothing is written.
        OSError: the file cannot be read or written; the old one stays.
    """
    import tomlkit

    old = read(path)
    document = tomlkit.parse(_uncommented(old.text or template(), () if profile else values))
    table = document
    if profile:
        profiles = document.setdefault("profiles", tomlkit.table(is_super_table=True))
        table = profiles.setdefault(profile, tomlkit.table())
    for key, value in values.items():
        table[key] = list(value) if isinstance(value, tuple) else value
    text = tomlkit.dumps(document)
    parse(path, text)
    paths.write_private(path.resolve(), text)


def _uncommented(text: str, values: Iterable[str]) -> str:
    """The text with the template's line of each of the keys in force, so that a key stands beside its meaning."""
    table = re.search(r"(?m)^\s*\[", text)
    end = table.start() if table else len(text)
    head, tail = text[:end], text[end:]
    for key in values:
        if not re.search(rf"(?m)^\s*{key}\s*=", head):
            head = re.sub(rf"(?m)^# ({key} = )", r"\1", head, count=1)
    return head + tail
