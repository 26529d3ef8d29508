"""Makes the problem of values that a model refuses: each field with what is wrong, and hints.

A name that the model does not have gets the nearest one that it has.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from clusterra_contracts.wrong_values import UNITS, Place, WrongValue, wrong_values
from pydantic import BaseModel, ValidationError

from clusterra_gateway.http.requests.errors import FieldError, InvalidRequest, pointer

MAX_FIELD_ERRORS = 20
"""The most wrong fields that a problem names."""
MAX_TOLD = 5
"""The most wrong fields that a problem's detail repeats."""
MAX_NAMES = 20
"""The most names that a hint lists."""
MAX_NAME = 100
"""How much of a name from a request is compared and repeated."""
EACH = "*"

type Hints = Mapping[tuple[str, ...], str]
"""The hint for an error at a place in the body, such as `("job", "nodes")`. `EACH` stands for any item of a list."""

_OPTION = re.compile("'([^']*)'")


def invalid(
    where: Literal["body", "query"], error: ValidationError, model: type[BaseModel], content: Any, hints: Hints
) -> InvalidRequest:
    """The problem of a request whose content a model refused."""
    told, helpful, fields = list[str](), dict[str, None](), list[FieldError]()
    for each in wrong_values(error, content, most=MAX_FIELD_ERRORS):
        known = hints.get(tuple(EACH if isinstance(part, int) else part for part in each.place))
        text = each.text
        if each.kind == "extra_forbidden":
            text = f"there is no such {'field' if where == 'body' else 'parameter'}" if known is None else _NOT_HERE
        hint = known if known is not None else _hint(where, each, model, content)
        if hint:
            helpful[hint] = None
        path = each.path or where
        told.append(f"{path if len(path) <= 2 * MAX_NAME else path[: 2 * MAX_NAME] + '...'}: {text}")
        fields.append(FieldError(where, pointer(each.place) if where == "body" else path, text))
    return InvalidRequest("; ".join(told[:MAX_TOLD]), hint="; ".join(helpful), errors=tuple(fields))


_NOT_HERE = "it cannot be set here"


def _hint(where: str, wrong: WrongValue, model: type[BaseModel], content: Any) -> str:
    """What may help with a wrong value; empty where its own text says everything."""
    name = str(wrong.place[-1]) if wrong.place else ""
    if wrong.kind == "extra_forbidden":
        return _nearest_name(where, name, sorted(names_at(model, wrong.place[:-1])))
    if wrong.kind in ("literal_error", "enum"):
        return _nearest(_value(wrong.place, content), _OPTION.findall(wrong.text))
    if name in UNITS and wrong.kind in ("int_type", "int_parsing", "int_from_float"):
        unit, example, meaning = UNITS[name]
        return f"`{name}` is in {unit}: {example} is {meaning}"
    return ""


def _nearest_name(where: str, name: str, names: list[str]) -> str:
    if near := _nearest(name, names):
        return near
    what = "fields" if where == "body" else "parameters"
    if not names:
        return f"this request takes no {what}" if where == "query" else ""
    return f"the {what} are {', '.join(names)}" if len(names) <= MAX_NAMES else ""


def _nearest(given: Any, names: list[str]) -> str:
    if not isinstance(given, str):
        return ""
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(given[:MAX_NAME].lower(), by_lower, 1)
    return f"did you mean `{by_lower[near[0]]}`?" if near else ""


def _value(place: Place, content: Any) -> Any:
    for part in place:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return None
    return content


@lru_cache(maxsize=256)
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def names_at(model: type[BaseModel], place: Place) -> set[str]:
    """The names of the fields that an object at this place of the content may have; those of all choices of a union."""
    schema = _schema(model)
    definitions = schema.get("$defs", {})
    found = [schema]
    for part in place:
        found = [inner for each in found for inner in _within(each, part, definitions)]
    return {name for each in found for choice in _choices(each, definitions) for name in choice.get("properties", {})}


def _within(schema: dict[str, Any], part: int | str, definitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for choice in _choices(schema, definitions):
        inner = choice.get("items") if isinstance(part, int) else choice.get("properties", {}).get(part)
        if isinstance(inner, dict):
            yield inner


def _choices(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema without references, and those of a union."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if (reference := each.get("$ref")) is not None:
            waiting.append(definitions.get(str(reference).rpartition("/")[2], {}))
            continue
        yield each
        for union in ("anyOf", "oneOf", "allOf"):
            waiting.extend(each.get(union, ()))
