"""Values that say nothing: clients that are generated from slurmrestd's document send them for fields not set."""

from collections.abc import Collection, Mapping
from typing import Any

type Schema = dict[str, Any]

_UNSET: tuple[Schema, ...] = (
    {"type": "null"},
    {"const": ""},
    {"type": "array", "maxItems": 0},
    {"type": "object", "maxProperties": 0},
    {"type": "object", "properties": {"set": {"const": False}}, "required": ["set"]},
)


def is_unset(value: Any) -> bool:
    """Whether a value says nothing."""
    if isinstance(value, Mapping):
        return not value or value.get("set") is False
    return value is None or value is False or value in ("", [], ())


def set_fields(fields: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The fields that say something. `requeue: false` does, where the field is known."""
    return {name: value for name, value in fields.items() if not is_unset(value) or (value is False and name in known)}


def number(value: Any) -> Any:
    """Read Slurm's `{"set": true, "number": N}` as N. Anything else stays as it is."""
    if not isinstance(value, dict) or value.get("infinite") or not isinstance(value.get("number"), int | float):
        return value
    return value["number"]


def or_unset(schema: Schema) -> None:
    """Say in the schema of a job that a field may be unset, unless it is required, whatever its name."""
    for name, field in schema["properties"].items():
        if name not in schema.get("required", ()):
            schema["properties"][name] = {"anyOf": [field, *_as_object(field), *_UNSET]}
    schema["additionalProperties"] = {"anyOf": [*_UNSET, {"const": False}]}


def _as_object(schema: Schema) -> list[Schema]:
    """The schemas of Slurm's objects for the numbers among the choices."""
    numbers = [choice for choice in (schema, *schema.get("anyOf", ())) if choice.get("type") == "integer"]
    return [
        {
            "type": "object",
            "properties": {"number": each, "set": {"type": "boolean"}, "infinite": {"const": False}},
            "required": ["number"],
        }
        for each in numbers
    ]
