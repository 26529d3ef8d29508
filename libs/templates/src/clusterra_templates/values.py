"""Checks what somebody gives for parameters and inputs, and fills in the defaults."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from clusterra_templates.definitions import Runnable
from clusterra_templates.parts import NOT_A_PATH, Input, Parameter
from clusterra_templates.pieces import Value, shown
from clusterra_templates.problems import ValueRefused, nearest

MAX_LINE = 4096
MAX_TEXT = 128 * 1024
MAX_ITEMS = 1000
MAX_DEPTH = 8
MAX_NUMBER = 10**15

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|[\ud800-\udfff]")
_NUMBER = re.compile(r"-?\d{1,16}(\.\d{1,16})?([eE][-+]?\d{1,2})?")


def parameters(definition: Runnable, given: Mapping[str, Any]) -> dict[str, Value]:
    """The values of all parameters. Raises ValueRefused for an unknown one, a wrong one, and one that is missing."""
    return _all("parameter", definition.parameters, given, _parameter)


def inputs(definition: Runnable, given: Mapping[str, Any]) -> dict[str, Value]:
    """The values of all inputs. Raises ValueRefused for an unknown one, a wrong one, and one that is missing."""
    return _all("input", definition.inputs, given, _input)


def _all[P: (Parameter, Input)](
    what: str, parts: tuple[P, ...], given: Mapping[str, Any], check: Any
) -> dict[str, Value]:
    known = {part.key for part in parts}
    if unknown := sorted(given.keys() - known):
        raise ValueRefused(unknown[0][:100], f"the template has no such {what}: {nearest(unknown[0], known)}")
    found: dict[str, Value] = {}
    for part in parts:
        value = given.get(part.key)
        if value is None or (value == "" and part.default is not None):
            value = part.default
        if value is None or value == "":
            if part.required:
                raise ValueRefused(part.key, f"this {what} is required: give it a value")
            found[part.key] = _nothing(part)
        else:
            found[part.key] = check(part, value)
    return found


def _nothing(part: Parameter | Input) -> Value:
    """What an optional part is without a value: empty, so that a template can ask whether it is there."""
    kind = part.widget if isinstance(part, Parameter) else part.role
    if kind in ("env_map", "nextflow_schema"):
        return {}
    return False if kind == "bool" else ""


def _parameter(part: Parameter, value: Any) -> Value:
    match part.widget:
        case "number":
            return _number(part, value)
        case "bool":
            return _truth(part.key, value)
        case "enum":
            for option in part.options or ():
                if shown(option) == _shown_scalar(part.key, value):
                    return option
            options = ", ".join(map(shown, part.options or ()))
            raise ValueRefused(part.key, f"it must be one of {options}")
        case "text":
            return line(part.key, _shown_scalar(part.key, value))
        case "textarea":
            return text(part.key, value)
        case "env_map":
            return variables(part.key, value)
        case "nextflow_schema":
            return _object(part.key, value)
        case "json_textarea":
            return _json_text(part.key, value)


def _input(part: Input, value: Any) -> Value:
    if part.role == "env_map":
        return variables(part.key, value)
    if part.role == "raw_text" or (part.role == "samplesheet" and isinstance(value, str) and "\n" in value):
        return text(part.key, value)
    found = line(part.key, _shown_scalar(part.key, value))
    if part.role not in NOT_A_PATH and (found.startswith("-") or ".." in found.split("/")):
        raise ValueRefused(part.key, "a path begins with no hyphen, and has no `..` (write ./ before a hyphen)")
    return found


def line(key: str, value: Any) -> str:
    """One line of text. Raises ValueRefused."""
    found = text(key, value)
    if "\n" in found or len(found) > MAX_LINE:
        raise ValueRefused(key, f"it must be one line of at most {MAX_LINE} characters")
    return found


def text(key: str, value: Any) -> str:
    """Text of any number of lines, as Unix writes it: without the byte order mark that spreadsheets put before tables.

    Raises ValueRefused.
    """
    if not isinstance(value, str):
        raise ValueRefused(key, "it must be text")
    found = value.removeprefix("\ufeff").replace("\r\n", "\n")
    if len(found) > MAX_TEXT:
        raise ValueRefused(key, f"it has more than {MAX_TEXT // 1024} KiB: put it into a file")
    if _CONTROL.search(found) or "\r" in found:
        raise ValueRefused(key, "it has control characters: remove them")
    return found


def variables(key: str, value: Any) -> dict[str, Value]:
    """Environment variables: names with texts. Raises ValueRefused."""
    if not isinstance(value, dict) or len(value) > MAX_ITEMS:
        raise ValueRefused(key, f"it must be an object of at most {MAX_ITEMS} names and texts")
    found: dict[str, Value] = {}
    for name, each in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueRefused(key, f"{name!r} is no name of a variable: use letters, digits and _")
        found[name] = text(key, _shown_scalar(key, each))
    return found


def _shown_scalar(key: str, value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise ValueRefused(key, "it must be text or a number")
    return shown(value)


def _number(part: Parameter, value: Any) -> int | float:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value) if re.search(r"[.eE]", value) else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueRefused(part.key, "it must be a number")
    least = -MAX_NUMBER if part.min is None else part.min
    most = MAX_NUMBER if part.max is None else part.max
    if not least <= value <= most:
        raise ValueRefused(part.key, f"it must be from {shown(least)} to {shown(most)}")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _truth(key: str, value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ValueRefused(key, "it must be true or false")
    return value


def _object(key: str, value: Any) -> Value:
    if isinstance(value, str):
        value = json.loads(_json_text(key, value))
    if not isinstance(value, dict):
        raise ValueRefused(key, "it must be an object")
    return _bounded(key, value, MAX_DEPTH)


def _json_text(key: str, value: Any) -> str:
    if isinstance(value, dict | list):
        return shown(_bounded(key, value, MAX_DEPTH))
    found = text(key, value)
    try:
        parsed = json.loads(found)
    except (ValueError, RecursionError):
        raise ValueRefused(key, "it must be JSON") from None
    _bounded(key, parsed, MAX_DEPTH)
    return found


def _bounded(key: str, value: Any, depth: int) -> Value:
    """The value, when it is neither too deep nor too large."""
    if depth < 0:
        raise ValueRefused(key, "it is nested too deep")
    match value:
        case dict() if len(value) <= MAX_ITEMS:
            return {line(key, name): _bounded(key, each, depth - 1) for name, each in value.items()}
        case list() if len(value) <= MAX_ITEMS:
            return [_bounded(key, each, depth - 1) for each in value]
        case str():
            return text(key, value)
        case None | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case _:
            raise ValueRefused(key, f"it has something that is no JSON, or more than {MAX_ITEMS} items")
