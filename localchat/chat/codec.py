"""Our frozen values as JSON and back, by the types of their fields; nothing is lost, infinities included.

Fields that are missing take their default and unknown ones are left out, so older and newer versions read each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

_SCALARS = frozenset((str, int, bool, float))
_PLAIN = frozenset((str, int, bool, NoneType))


def encode(value: object) -> object:
    """Only dicts, lists, texts, finite numbers, true, false and null."""
    kind = type(value)
    if kind in _PLAIN:  # most of a long reply
        return value
    if isinstance(value, list | tuple):
        return list(value) if _PLAIN.issuperset(map(type, value)) else [encode(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return encode_fields(value)
    return value


def encode_fields(value: DataclassInstance) -> dict[str, Any]:
    """One of our values as a JSON object."""
    return {name: encode(getattr(value, name)) for name in _names(type(value))}


def decode(kind: type[T], raw: object) -> T:
    """The value of that type.

    Raises:
        ValueError: `raw` is not one.
    """
    try:
        value: T = _decode(kind, raw)
    except (TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"no {kind.__name__}: {error}") from error
    return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(spec.name for spec in fields(kind))


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in _names(kind)}


def _decode(kind: Any, raw: Any) -> Any:
    if kind in _SCALARS:
        return _scalar(kind, raw)
    origin = get_origin(kind)
    if origin is tuple:
        return _items(get_args(kind), raw)
    if origin in (UnionType, Union):
        inner = next(part for part in get_args(kind) if part is not NoneType)
        return None if raw is None else _decode(inner, raw)
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**{name: _decode(hint, raw[name]) for name, hint in _hints(kind).items() if name in raw})
    return kind(raw)


def _items(kinds: tuple[Any, ...], raw: Any) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise TypeError(f"{type(raw).__name__} where a list belongs")
    if kinds[-1] is not Ellipsis:
        return tuple(_decode(kind, item) for kind, item in zip(kinds, raw, strict=True))
    inner = kinds[0]
    if inner in (str, int) and {inner}.issuperset(map(type, raw)):
        return tuple(raw)
    return tuple(_decode(inner, item) for item in raw)


def _scalar(kind: type, raw: Any) -> Any:
    if kind is float and not isinstance(raw, bool):
        return float(raw)
    if type(raw) is not kind:
        raise TypeError(f"{type(raw).__name__} where {kind.__name__} belongs")
    return raw
