"""Says in plain words what is wrong with values that a model refuses: what a caller reads is no text of a library.

Pydantic names its own types ("Tuple should have at least 1 item"), and the choices of a union as if they were fields.
Here each kind of error has one sentence, with the unit and an example, and each place is one that the sender wrote.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

type Place = tuple[int | str, ...]
"""Where a value stands, such as `("steps", 0, "job", "nodes")`."""

MOMENT = "2026-11-23T17:00:00Z"
NOT_KNOWN: Any = object()
"""Stands for content that is not at hand. None would be JSON's null."""

UNITS: dict[str, tuple[str, str, str]] = {
    **dict.fromkeys(("time_limit", "time_minimum"), ("minutes", "60", "one hour")),
    **dict.fromkeys(("memory_per_node", "memory_per_cpu", "temporary_disk_per_node"), ("MiB", "4096", "4 GiB")),
    **dict.fromkeys(("begin_time", "deadline"), ("seconds since 1970", "1798761600", "1 January 2027")),
    **dict.fromkeys(("kill_warning_delay", "wait_for_switch"), ("seconds", "60", "one minute")),
}
"""Numbers whose names do not say their unit: the unit, an example, and what the example means."""
_SUFFIXES: dict[str, tuple[str, str]] = {
    "seconds": ("seconds", "60"),
    "minutes": ("minutes", "60"),
    "days": ("days", "7"),
    "mib": ("MiB", "4096"),
    "gib": ("GiB", "4"),
    "percent": ("percent", "10"),
    "per_hour": ("US dollars per hour", "1.5"),
}
_PATTERNS: dict[str, str] = {
    "^#!": 'must begin with the line of its interpreter, such as "#!/bin/bash"',
    r"^[^\x00-\x1f\x7f]+$": "must be one line without control characters",
    r"^[^\x00-\x1f\x7f]*$": "must be one line without control characters",
    r"^[a-z0-9][a-z0-9-]{0,38}$": "must be at most 39 lower-case letters, digits and hyphens, such as main-2",
    r"^[a-z0-9][a-z0-9-]{0,62}$": "must be at most 63 lower-case letters, digits and hyphens, such as main-2",
    r"^[a-z0-9][a-z0-9-]*$": "must be lower-case letters, digits and hyphens, such as count-words",
    r"^[a-z][a-z0-9_]*$": "must be lower-case letters, digits and _, such as input_file",
    r"^[A-Za-z0-9_-]{1,40}$": "must be 1 to 40 letters, digits, _ and -, such as prepare-1",
    r"^[a-z_][a-z0-9_-]{0,30}$": "must be a user name of at most 31 lower-case letters, digits, _ and -",
    r"^[^@\s\x00-\x1f\x7f]{1,64}@[A-Za-z0-9.-]{1,253}$": "must be an e-mail address, such as ada@example.org",
    r"^https?://[!-~]+$": "must be a URL in visible ASCII characters, such as https://ci.example.com/hooks/7f3a",
    r"^[a-z]{1,32}\.([a-z_]{1,64}|\*)$": "must be a kind of event such as job.failed, or all kinds of a family: job.*",
}
"""What the usual patterns mean."""


@dataclass(frozen=True, slots=True)
class WrongValue:
    """One value that is wrong. `kind` is pydantic's name of the error, for programs."""

    place: Place
    kind: str
    text: str

    @property
    def path(self) -> str:
        """The place as texts show it: `steps.0.job.nodes`; empty for the whole content."""
        return ".".join(map(str, self.place))


def wrong_values(error: ValidationError, content: Any = NOT_KNOWN, *, most: int = 20) -> list[WrongValue]:
    """The values that a model refused, at most so many. `content` is what it was given, as plain values.

    Without the content, a place may name the choices of unions, too.
    """
    found: dict[Place, dict[str, str]] = {}
    for each in error.errors(include_input=False, include_url=False):
        kind, place = each["type"], tuple(each["loc"])
        if content is not NOT_KNOWN:
            place = _written(place, content, ends_in_gap=kind == "missing")
        texts = found.setdefault(place, {})
        texts.setdefault(sentence(kind, each.get("ctx") or {}, _name(place), otherwise=each["msg"]), kind)
        if len(found) > most:
            found.pop(place)
            break
    # Of a union, each choice has its errors. Those further within belong to the choice that was meant.
    within = {place[:length] for place in found for length in range(len(place))}
    chosen = {place: texts for place, texts in found.items() if place not in within}
    return [WrongValue(place, next(iter(texts.values())), _joined(list(texts))) for place, texts in chosen.items()]


def summary(error: ValidationError, content: Any = NOT_KNOWN, *, whole: str = "content", most: int = 5) -> str:
    """The same as one line of text. `whole` names the content itself."""
    return "; ".join(f"{each.path or whole}: {each.text}" for each in wrong_values(error, content, most=most))


def sentence(kind: str, context: Mapping[str, Any], name: str = "", *, otherwise: str = "is not valid") -> str:
    """What is wrong, for an error of this kind about the field `name`. `otherwise`: the text of a kind of our own."""
    text = SENTENCES.get(kind)
    if text is None:
        return otherwise
    if not isinstance(text, str):
        return text(context)
    if kind in _OF_NUMBERS and (unit := _unit(name)) is not None:
        of, example = unit
        return f"{text} of {of}, such as {example}"
    if kind in _BOUNDS and (unit := _unit(name)) is not None:
        return f"{text.format_map(context)} {unit[0]}"
    return text.format_map(context)


def _unit(name: str) -> tuple[str, str] | None:
    if name in UNITS:
        return UNITS[name][:2]
    return next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(f"_{suffix}")), None)


def _name(place: Place) -> str:
    return next((part for part in reversed(place) if isinstance(part, str)), "")


def _written(place: Place, content: Any, *, ends_in_gap: bool) -> Place:
    """The place without the names of a union's choices, which stand nowhere in the content."""
    gap = place[-1:] if ends_in_gap else ()
    ways = list(_ways(place[: len(place) - len(gap)], content, to_object=ends_in_gap))
    # A choice may have the name of a field: the way that leads furthest is right, and to the last part.
    way, _ = max(ways, key=lambda each: (len(each[0]), each[1]), default=((), True))
    return way + gap


def _ways(place: Place, content: Any, *, to_object: bool) -> Iterator[tuple[Place, bool]]:
    """Each way into the content along the place, with whether it takes the last part. It leaves out other parts."""
    if not place:
        if not to_object or isinstance(content, dict):
            yield (), True
        return
    part, rest = place[0], place[1:]
    in_object = isinstance(content, dict) and part in content
    in_list = isinstance(content, list) and isinstance(part, int) and part < len(content)
    if in_object or in_list:
        for inner, last in _ways(rest, content[part], to_object=to_object):
            yield (part, *inner), last
    for inner, last in _ways(rest, content, to_object=to_object):
        yield inner, last and bool(rest)


def _joined(texts: list[str]) -> str:
    """One text of those for the choices of a union."""
    first, *others = texts
    return ", or ".join([first, *(each.removeprefix("must be ") for each in others)])


def _count(number: Any, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _pattern(context: Mapping[str, Any]) -> str:
    pattern = str(context.get("pattern", ""))
    return _PATTERNS.get(pattern, f"must match the pattern {pattern}")


def _of_validator(context: Mapping[str, Any]) -> str:
    error = context.get("error")
    return summary(error) if isinstance(error, ValidationError) else str(error)


def _json(context: Mapping[str, Any]) -> str:
    at = re.search(r"line (\d+) column (\d+)", str(context.get("error", "")))
    return f"is no valid JSON: see line {at[1]}, column {at[2]}" if at else "is no valid JSON"


type Sentence = str | Callable[[Mapping[str, Any]], str]

_INTEGER, _NUMBER = "must be a whole number", "must be a number"
_OBJECT, _LIST, _STRING, _URL = "must be an object", "must be a list", "must be a string", "must be a URL"
_TIME = f"must be a time such as {MOMENT}"
_DATE = "must be a date such as 2026-11-23"
_DURATION = "must be a duration in seconds, such as 60"
_UUID = "must be a UUID, such as 0192f3a4-5b6c-7d8e-9f01-23456789abcd"
_COMPLEX = "must be a complex number"
_NOT_HERE = "cannot be given here"
_PYTHON = "has a wrong type"

_OF_NUMBERS = frozenset({"int_type", "int_parsing", "int_from_float", "float_type", "float_parsing"})
_BOUNDS = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal", "multiple_of"})

SENTENCES: dict[str, Sentence] = {
    "missing": "is required",
    "extra_forbidden": "is not known here",
    "value_error": _of_validator,
    "assertion_error": _of_validator,
    "json_invalid": _json,
    "json_type": "must be a string that holds JSON",
    "recursion_loop": "contains itself",
    "recursion_depth_exceeded": "is nested too deep",
    "invalid_key": "must have strings as names",
    # Numbers.
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _INTEGER),
    "int_parsing_size": "must be a smaller number",
    **dict.fromkeys(("float_type", "float_parsing", "decimal_type", "decimal_parsing"), _NUMBER),
    **dict.fromkeys(("fraction_type", "fraction_parsing"), "must be a fraction, such as 1/2"),
    **dict.fromkeys(("complex_type", "complex_str_parsing"), _COMPLEX),
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "decimal_max_digits": lambda of: f"must have at most {_count(of['max_digits'], 'digit')}",
    "decimal_max_places": lambda of: f"must have at most {_count(of['decimal_places'], 'digit')} after the point",
    "decimal_whole_digits": lambda of: f"must have at most {_count(of['whole_digits'], 'digit')} before the point",
    # Strings and choices.
    **dict.fromkeys(("string_type", "url_type", "bytes_type"), _STRING),
    **dict.fromkeys(("string_unicode", "bytes_invalid_encoding"), "must be text in UTF-8"),
    "string_not_ascii": "must have ASCII characters only",
    "string_too_short": lambda of: f"must have at least {_count(of['min_length'], 'character')}",
    "string_too_long": lambda of: f"must have at most {_count(of['max_length'], 'character')}",
    "bytes_too_short": lambda of: f"must have at least {_count(of['min_length'], 'byte')}",
    "bytes_too_long": lambda of: f"must have at most {_count(of['max_length'], 'byte')}",
    "string_pattern_mismatch": _pattern,
    **dict.fromkeys(("enum", "literal_error"), "must be {expected}"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "none_required": "must be null",
    # Objects and lists.
    **dict.fromkeys(("model_type", "model_attributes_type", "dataclass_type", "dataclass_exact_type"), _OBJECT),
    **dict.fromkeys(("dict_type", "mapping_type", "frozen_dict_type", "ordered_dict_type", "counter_type"), _OBJECT),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "deque_type"), _LIST),
    **dict.fromkeys(("iterable_type", "iteration_error", "named_tuple_type", "arguments_type"), _LIST),
    "set_item_not_hashable": "must have strings, numbers, true or false in its list",
    "too_short": lambda of: f"must have at least {_count(of['min_length'], 'item')}",
    "too_long": lambda of: f"must have at most {_count(of['max_length'], 'item')}",
    "union_tag_invalid": "has {discriminator} '{tag}', which must be one of {expected_tags}",
    "union_tag_not_found": "must say what it is in {discriminator}",
    # Times.
    **dict.fromkeys(("datetime_type", "datetime_parsing", "datetime_object_invalid"), _TIME),
    **dict.fromkeys(("datetime_from_date_parsing", "time_type", "time_parsing"), _TIME),
    "timezone_aware": f"must have a time zone, such as {MOMENT}",
    "timezone_naive": "must have no time zone",
    "timezone_offset": "must be in another time zone",
    **dict.fromkeys(("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"), _DATE),
    **dict.fromkeys(("date_past", "datetime_past"), "must be in the past"),
    **dict.fromkeys(("date_future", "datetime_future"), "must be in the future"),
    **dict.fromkeys(("time_delta_type", "time_delta_parsing"), _DURATION),
    # Addresses and ids.
    **dict.fromkeys(("url_parsing", "url_syntax_violation"), _URL),
    "url_too_long": lambda of: f"must have at most {_count(of['max_length'], 'character')}",
    "url_scheme": "must be a URL that begins with {expected_schemes}",
    **dict.fromkeys(("uuid_type", "uuid_parsing"), _UUID),
    "uuid_version": "must be a UUID of version {expected_version}",
    # What only values of Python can be.
    **dict.fromkeys(("no_such_attribute", "get_attribute_error", "is_instance_of", "is_subclass_of"), _PYTHON),
    **dict.fromkeys(("callable_type", "needs_python_object", "default_factory_not_called"), _PYTHON),
    **dict.fromkeys(("missing_sentinel_error", "ellipsis_error"), _PYTHON),
    **dict.fromkeys(("frozen_field", "frozen_instance", "unexpected_keyword_argument"), _NOT_HERE),
    **dict.fromkeys(("unexpected_positional_argument", "multiple_argument_values"), _NOT_HERE),
    **dict.fromkeys(("missing_argument", "missing_keyword_only_argument"), "is required"),
    "missing_positional_only_argument": "is required",
}
"""The sentence for each kind of error that pydantic knows; `{...}` is from the error's context."""
