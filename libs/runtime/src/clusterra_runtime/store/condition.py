"""Under which condition a write happens. Each is judged against the live item: an expired one counts as absent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from clusterra_runtime.store.item import SYSTEM_ATTRIBUTES, InvalidItem, Item, Value, number_text, sum_of

type Operator = Literal["==", "!=", "<", "<=", ">", ">="]
type Condition = Absent | Present | VersionIs | Missing | Compare | AllOf | AnyOf


class _Combinable:
    """Gives conditions `&` and `|`."""

    __slots__ = ()

    def __and__(self: Any, other: "Condition") -> "AllOf":
        return AllOf((self, other))

    def __or__(self: Any, other: "Condition") -> "AnyOf":
        return AnyOf((self, other))


@dataclass(frozen=True, slots=True)
class Absent(_Combinable):
    """There is no item."""

    def __str__(self) -> str:
        return "the item is absent"


@dataclass(frozen=True, slots=True)
class Present(_Combinable):
    """There is an item."""

    def __str__(self) -> str:
        return "the item is present"


@dataclass(frozen=True, slots=True)
class VersionIs(_Combinable):
    """The item was last written as this version, that is: nobody wrote since it was read."""

    version: int

    def __str__(self) -> str:
        return f"the version is {self.version}"


@dataclass(frozen=True, slots=True)
class Missing(_Combinable):
    """The item lacks this attribute, or is absent."""

    attribute: str

    def __post_init__(self) -> None:
        _refuse_system(self.attribute)

    def __str__(self) -> str:
        return f"{self.attribute!r} is missing"


@dataclass(frozen=True, slots=True)
class Compare(_Combinable):
    """The item has this attribute and it compares so. Values of different types are never equal nor ordered.

    `<`, `<=`, `>` and `>=` are for numbers, texts (by their bytes) and bytes. Raises InvalidItem for others.
    """

    attribute: str
    operator: Operator
    value: Value

    def __post_init__(self) -> None:
        _refuse_system(self.attribute)
        if self.operator not in {"==", "!="} and _kind(self.value) not in {"number", "text", "bytes"}:
            raise InvalidItem(f"{self.attribute!r} cannot be ordered against a {type(self.value).__name__}")

    def __str__(self) -> str:
        # The value stays out: conditions are told in errors and logs, and may hold a secret's hash.
        return f"{self.attribute!r} {self.operator} the given value"


@dataclass(frozen=True, slots=True)
class AllOf(_Combinable):
    """Each of these holds. Usually written `a & b`."""

    conditions: "tuple[Condition, ...]"

    def __str__(self) -> str:
        return " and ".join(f"({c})" if isinstance(c, AnyOf) else str(c) for c in self.conditions)


@dataclass(frozen=True, slots=True)
class AnyOf(_Combinable):
    """At least one of these holds. Usually written `a | b`."""

    conditions: "tuple[Condition, ...]"

    def __str__(self) -> str:
        return " or ".join(str(c) for c in self.conditions)


def at_most(attribute: str, value: int | float | str) -> Condition:
    """The attribute is missing or at most this: how a write carries a lease's fence."""
    return Missing(attribute) | Compare(attribute, "<=", value)


def room(attribute: str, amount: int | float, limit: int | float) -> Condition:
    """Adding `amount` keeps the attribute at or below `limit`; a missing one counts as 0. For atomic quotas."""
    left = sum_of(limit, -amount)
    return at_most(attribute, left) if left >= 0 else Compare(attribute, "<=", left)


def holds(condition: Condition | None, item: Item | None) -> bool:
    """Whether a condition holds for a live item (None: there is none). No condition always holds."""
    match condition:
        case None:
            return True
        case Absent():
            return item is None
        case Present():
            return item is not None
        case VersionIs(version):
            return item is not None and item.version == version
        case Missing(attribute):
            return item is None or attribute not in item.attributes
        case Compare(attribute, operator, value):
            return (
                item is not None
                and attribute in item.attributes
                and _compare(item.attributes[attribute], operator, value)
            )
        case AllOf(conditions):
            return all(holds(each, item) for each in conditions)
        case AnyOf(conditions):
            return any(holds(each, item) for each in conditions)


def _compare(stored: Value, operator: Operator, value: Value) -> bool:
    if operator == "==":
        return _equal(stored, value)
    if operator == "!=":
        return not _equal(stored, value)
    if _kind(stored) != _kind(value):
        return False
    low, high = _ordinal(stored), _ordinal(value)
    match operator:
        case "<":
            return bool(low < high)
        case "<=":
            return bool(low <= high)
        case ">":
            return bool(low > high)
        case ">=":
            return bool(low >= high)


def _ordinal(value: Value) -> Any:
    """What orders as DynamoDB orders: numbers exactly, texts by their UTF-8 bytes."""
    match value:
        case int() | float() if not isinstance(value, bool):
            return Decimal(number_text(value))
        case str():
            return value.encode()
    return value


def _equal(one: Value, other: Value) -> bool:
    if _kind(one) != _kind(other):
        return False
    match one, other:
        case (Mapping(), Mapping()):
            return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
        case (list() | tuple(), list() | tuple()):
            return len(one) == len(other) and all(_equal(a, b) for a, b in zip(one, other, strict=True))
    return bool(_ordinal(one) == _ordinal(other))


def _kind(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case bytes():
            return "bytes"
        case Mapping():
            return "map"
        case Sequence():
            return "list"


def _refuse_system(attribute: str) -> None:
    if attribute in SYSTEM_ATTRIBUTES:
        raise InvalidItem(f"{attribute!r} belongs to the store: use Absent, Present or VersionIs")
