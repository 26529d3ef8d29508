"""Conditions of writes, made of boto3's condition objects. They combine with `&` and `|`.

A condition is checked against the live item: an expired item counts as absent. DynamoDB checks it on the server, and
`holds` gives the same answer for an item in memory.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from boto3.dynamodb.conditions import (
    And,
    Attr,
    AttributeBase,
    AttributeExists,
    AttributeNotExists,
    Equals,
    GreaterThan,
    GreaterThanEquals,
    LessThan,
    LessThanEquals,
    NotEquals,
    Or,
)

from clusterra_runtime.store.attribute_value import AttributeValue, serialize
from clusterra_runtime.store.item import SYSTEM_ATTRIBUTES, InvalidItem, Item, Value, canonical

type Operator = Literal["==", "!=", "<", "<=", ">", ">="]
type Comparison = Equals | NotEquals | LessThan | LessThanEquals | GreaterThan | GreaterThanEquals
type Condition = And | Or | AttributeExists | AttributeNotExists | Comparison
"""The conditions that every adapter of the store supports."""

_ORDERED_TYPES = frozenset({"N", "S", "B"})
_PATH_CHARACTERS = frozenset(".[]")


class Absent(AttributeNotExists):
    """There is no item."""

    def __init__(self) -> None:
        super().__init__(Attr("pk"))


class Present(AttributeExists):
    """There is an item."""

    def __init__(self) -> None:
        super().__init__(Attr("pk"))


class VersionIs(Equals):
    """The item is at this version: nobody wrote it since it was read."""

    def __init__(self, version: int) -> None:
        super().__init__(Attr("version"), version)
        self.version = version


class Missing(AttributeNotExists):
    """The item lacks the attribute, or is absent. Raises InvalidItem for a name that conditions cannot use."""

    def __init__(self, attribute: str) -> None:
        super().__init__(_attribute(attribute))


def compare(attribute: str, operator: Operator, value: Value) -> Condition:
    """The item has the attribute, and it compares so with the value. Values of different types are never equal.

    `<`, `<=`, `>` and `>=` order numbers, strings (by their UTF-8 bytes) and bytes. Raises InvalidItem for other types.
    """
    compared = _attribute(attribute)
    # Equal values must be written alike: 5.0 as 5.
    value = canonical({"value": value})["value"]
    (kind,) = serialize(value)
    if operator not in {"==", "!="} and kind not in _ORDERED_TYPES:
        raise InvalidItem(f"{attribute!r} cannot be ordered against a {type(value).__name__}")
    match operator:
        case "==":
            return compared.eq(value)
        case "!=":
            # DynamoDB's `<>` alone also holds for an item that lacks the attribute.
            return compared.exists() & compared.ne(value)
        case "<":
            return compared.lt(value)
        case "<=":
            return compared.lte(value)
        case ">":
            return compared.gt(value)
        case ">=":
            return compared.gte(value)


def at_most(attribute: str, value: int | float | str) -> Condition:
    """The attribute is missing or at most this value: the condition under which a lease's fence is written."""
    return Missing(attribute) | compare(attribute, "<=", value)


def holds(condition: Condition | None, item: Item | None) -> bool:
    """Whether a condition holds for a live item (None: the item is absent). No condition always holds."""
    if condition is None:
        return True
    if item is None:
        return _holds(condition, {})
    return _holds(condition, {**item.attributes, "pk": item.key.pk, "version": item.version})


def describe(condition: Condition) -> str:
    """Says what a condition asks for, without the compared values: errors are logged, and a value may be a secret."""
    match condition:
        case Absent():
            return "the item is absent"
        case Present():
            return "the item is present"
        case VersionIs():
            return f"the version is {condition.version}"
        case And():
            return " and ".join(f"({describe(c)})" if isinstance(c, Or) else describe(c) for c in operands(condition))
        case Or():
            return " or ".join(describe(each) for each in operands(condition))
        case AttributeExists():
            return f"{_name(condition)!r} is present"
        case AttributeNotExists():
            return f"{_name(condition)!r} is missing"
        case _:
            return f"{_name(condition)!r} {condition.expression_operator} the given value"


def operands(condition: And | Or) -> list[Condition]:
    """The two conditions that `&` or `|` joined."""
    return condition.get_expression()["values"]


def _holds(condition: Condition, attributes: Mapping[str, Value]) -> bool:
    match condition:
        case And():
            return all(_holds(each, attributes) for each in operands(condition))
        case Or():
            return any(_holds(each, attributes) for each in operands(condition))
        case AttributeExists():
            return _name(condition) in attributes
        case AttributeNotExists():
            return _name(condition) not in attributes
        case _:
            name, value = _name(condition), condition.get_expression()["values"][1]
            if name not in attributes:
                return isinstance(condition, NotEquals)
            return _compare(serialize(attributes[name]), condition, serialize(value))


def _compare(stored: AttributeValue, comparison: Comparison, given: AttributeValue) -> bool:
    match comparison:
        case Equals():
            return stored == given
        case NotEquals():
            return stored != given
    if stored.keys() != given.keys():
        return False
    low, high = _ordinal(stored), _ordinal(given)
    match comparison:
        case LessThan():
            return bool(low < high)
        case LessThanEquals():
            return bool(low <= high)
        case GreaterThan():
            return bool(low > high)
        case GreaterThanEquals():
            return bool(low >= high)


def _ordinal(value: AttributeValue) -> Any:
    """Orders as DynamoDB does: numbers by their exact value, strings by their UTF-8 bytes."""
    ((kind, content),) = value.items()
    match kind:
        case "N":
            return Decimal(content)
        case "S":
            return content.encode()
    return content


def _attribute(name: str) -> Attr:
    if name in SYSTEM_ATTRIBUTES:
        raise InvalidItem(f"{name!r} belongs to the store: use Absent, Present or VersionIs")
    if not name or _PATH_CHARACTERS.intersection(name):
        raise InvalidItem(f"{name!r} cannot be used in a condition: boto3 reads `.`, `[` and `]` as a path")
    return Attr(name)


def _name(condition: Condition) -> str:
    attribute: AttributeBase = condition.get_expression()["values"][0]
    return attribute.name
