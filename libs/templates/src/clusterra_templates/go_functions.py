"""The functions of Go templates that definitions of version 2 use: Go's own, and those of the library Sprig."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from clusterra_templates.pieces import Value, replaced, shown
from clusterra_templates.problems import RenderRefused


class Quoted(str):
    """The result of `quote`: the text that stands between double quotes."""

    __slots__ = ()


def is_true(value: Value) -> bool:
    """Whether Go takes a value for true: everything but false, 0, nil, and empty texts, lists and objects."""
    return bool(value)


def _text(value: Value) -> str:
    return f'"{value}"' if isinstance(value, Quoted) else shown(value)


def _int(value: Value) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float) and abs(value) < 2**63:
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", value):
        return int(value)
    raise RenderRefused(f"int: {value!r} is no integer")


def _index(value: Value, *keys: Value) -> Value:
    for key in keys:
        match value:
            case dict() if isinstance(key, str) and key in value:
                value = value[key]
            case list() if isinstance(key, int) and 0 <= key < len(value):
                value = value[key]
            case dict():
                raise RenderRefused(f"index: there is no key {key!r}")
            case list():
                raise RenderRefused(f"index: the list has no item {key!r}")
            case _:
                raise RenderRefused("index: the value is neither a list nor an object")
    return value


def _compared(name: str, compare: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    def function(left: Value, right: Value) -> bool:
        numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (left, right))
        if not numbers and not (isinstance(left, str) and isinstance(right, str)):
            raise RenderRefused(f"{name}: {left!r} and {right!r} cannot be compared (`int` makes a number of a text)")
        return compare(left, right)

    return function


def _equal(left: Value, *others: Value) -> bool:
    return any(left == other and isinstance(left, bool) == isinstance(other, bool) for other in others)


def _indented(spaces: Value, text: Value) -> str:
    count = _int(spaces)
    if not 0 <= count <= 100:
        raise RenderRefused("indent: at most 100 spaces")
    return " " * count + replaced(_text(text), "\n", "\n" + " " * count)


def _replaced(old: Value, new: Value, text: Value) -> str:
    if not isinstance(old, str) or not old or not isinstance(new, str) or len(new) > 1000:
        raise RenderRefused("replace: it needs some text, and at most 1000 characters in its place")
    return replaced(_text(text), old, new)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "quote": lambda value: Quoted(_text(value)),
    "int": _int,
    "indent": _indented,
    "replace": _replaced,
    "index": _index,
    "len": lambda value: len(value) if isinstance(value, str | list | dict) else len(_text(value)),
    "eq": _equal,
    "ne": lambda left, right: not _equal(left, right),
    "gt": _compared("gt", lambda left, right: bool(left > right)),
    "ge": _compared("ge", lambda left, right: bool(left >= right)),
    "lt": _compared("lt", lambda left, right: bool(left < right)),
    "le": _compared("le", lambda left, right: bool(left <= right)),
    "not": lambda value: not is_true(value),
    "and": lambda *values: next((each for each in values if not is_true(each)), values[-1]),
    "or": lambda *values: next((each for each in values if is_true(each)), values[-1]),
}
"""All functions, by their names."""
