"""DynamoDB's own JSON, as its export to S3 writes it: each value under its type, binary values as base64."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

type Record = dict[str, dict[str, Any]]
"""An item as boto3's client reads and writes it: binary values as bytes."""

_TYPES = frozenset({"S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"})
MAX_DEPTH = 40
"""DynamoDB nests values 32 deep."""


class NotAnItem(ValueError):
    """A line does not hold an item of DynamoDB."""


def to_json(record: Mapping[str, Any]) -> dict[str, Any]:
    """An item in the form that JSON can hold."""
    return {name: _value_to_json(value) for name, value in record.items()}


def from_json(content: object) -> Record:
    """The reverse of `to_json`. Raises NotAnItem."""
    if not isinstance(content, dict) or not {"pk", "sk"} <= content.keys():
        raise NotAnItem("it has no pk and sk")
    try:
        return {str(name): _value_from_json(value, 0) for name, value in content.items()}
    except (binascii.Error, TypeError, ValueError) as error:
        raise NotAnItem(str(error)) from error


def _value_to_json(value: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, content),) = value.items()
    match kind:
        case "B":
            return {"B": base64.b64encode(content).decode()}
        case "BS":
            return {"BS": [base64.b64encode(each).decode() for each in content]}
        case "L":
            return {"L": [_value_to_json(each) for each in content]}
        case "M":
            return {"M": to_json(content)}
    return {kind: content}


def _value_from_json(value: object, depth: int) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) != 1 or depth > MAX_DEPTH:
        raise NotAnItem("a value is not under its type")
    ((kind, content),) = value.items()
    if kind not in _TYPES:
        raise NotAnItem(f"{kind!r} is not a type of DynamoDB")
    match kind:
        case "B":
            return {"B": base64.b64decode(content, validate=True)}
        case "BS":
            return {"BS": [base64.b64decode(each, validate=True) for each in content]}
        case "L":
            return {"L": [_value_from_json(each, depth + 1) for each in content]}
        case "M":
            return {"M": {name: _value_from_json(each, depth + 1) for name, each in content.items()}}
    return {kind: content}
