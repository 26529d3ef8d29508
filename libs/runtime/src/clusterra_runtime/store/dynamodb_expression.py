"""DynamoDB's languages: attribute values on the wire, and conditions and updates as expressions."""

from collections.abc import Mapping
from typing import Any

from clusterra_runtime.store.condition import Absent, AllOf, AnyOf, Compare, Condition, Missing, Present, VersionIs
from clusterra_runtime.store.item import Item, Key, Value, canonical, number_from_text, number_text
from clusterra_runtime.store.page import Between, Prefix, SortRange
from clusterra_runtime.store.store import Update

type AttributeValue = dict[str, Any]
type Record = dict[str, AttributeValue]
"""An item as it is on the wire."""


def encode(value: Value) -> AttributeValue:
    """A value as DynamoDB takes it. Raises InvalidItem for numbers out of range."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int() | float():
            return {"N": number_text(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case Mapping():
            return {"M": {name: encode(entry) for name, entry in value.items()}}
        case _:
            return {"L": [encode(entry) for entry in value]}


def decode(value: AttributeValue) -> Value:
    """The reverse of `encode`."""
    ((kind, content),) = value.items()
    match kind:
        case "NULL":
            return None
        case "N":
            return number_from_text(content)
        case "B":
            return bytes(content)
        case "M":
            return {name: decode(entry) for name, entry in content.items()}
        case "L":
            return [decode(entry) for entry in content]
        case "S" | "BOOL":
            plain: str | bool = content
            return plain
    raise TypeError(f"a value of DynamoDB's type {kind} was not written by this store")


def key_record(key: Key) -> Record:
    """The two attributes that are the primary key."""
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def item_record(item: Item) -> Record:
    """A whole item."""
    record = key_record(item.key) | {"version": encode(item.version)}
    if item.expires_at is not None:
        record["expires_at"] = encode(item.expires_at)
    return record | {name: encode(value) for name, value in item.attributes.items()}


def key_of(record: Mapping[str, AttributeValue]) -> Key:
    """The key of an item or of an index entry."""
    return Key(record["pk"]["S"], record["sk"]["S"])


def item_of(record: Mapping[str, AttributeValue]) -> Item:
    """The reverse of `item_record`."""
    attributes = {name: decode(value) for name, value in record.items() if name not in {"pk", "sk"}}
    version, expires_at = attributes.pop("version", 0), attributes.pop("expires_at", None)
    if not isinstance(version, int) or not isinstance(expires_at, int | None):
        raise TypeError("an item whose version or expiry is no integer was not written by this store")
    return Item(key_of(record), attributes, version, expires_at)


class Expression:
    """One request's expressions. Names and values are always placeholders, as many names are reserved words."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: Record = {}

    def placeholders(self) -> dict[str, Any]:
        """The request's parameters that say what the placeholders stand for."""
        request: dict[str, Any] = {
            "ExpressionAttributeNames": {placeholder: name for name, placeholder in self._names.items()}
        }
        if self._values:
            request["ExpressionAttributeValues"] = self._values
        return request

    def live(self, condition: Condition | None, now: int) -> str:
        """The condition, and that the item has not expired at `now` (epoch seconds); an absent one has not."""
        expires_at = self._name("expires_at")
        live = f"(attribute_not_exists({expires_at}) OR {expires_at} > {self._value(now)})"
        return live if condition is None else f"{self._condition(condition, inside_and=True)} AND {live}"

    def unchanged(self, item: Item) -> str:
        """That an item with an expiry is still as it was read."""
        expires_at, version = self._name("expires_at"), self._name("version")
        return f"{version} = {self._value(item.version)} AND {expires_at} = {self._value(item.expires_at)}"

    def update(self, update: Update) -> str:
        """An update's changes."""
        sets = [f"{self._name(name)} = {self._value(value)}" for name, value in canonical(update.set).items()]
        for name, entries in canonical(update.append).items():
            placeholder = self._name(name)
            sets.append(
                f"{placeholder} = list_append(if_not_exists({placeholder}, {self._value([])}), {self._value(entries)})"
            )
        if update.expires_at is not None:
            sets.append(f"{self._name('expires_at')} = {self._value(update.expires_at)}")
        adds = dict(update.add) | {"version": 0 if update.keep_version else 1}
        clauses = {
            "SET": sets,
            "ADD": [f"{self._name(name)} {self._value(amount)}" for name, amount in adds.items()],
            "REMOVE": [self._name(name) for name in update.remove],
        }
        return " ".join(f"{verb} {', '.join(parts)}" for verb, parts in clauses.items() if parts)

    def keys(self, partition: tuple[str, str], sort_attribute: str, sort: SortRange | None) -> str:
        """Which keys a query reads: those of a partition (its attribute and value), in a range of the other one."""
        attribute, value = partition
        condition = f"{self._name(attribute)} = {self._value(value)}"
        match sort:
            case Prefix(text):
                return f"{condition} AND begins_with({self._name(sort_attribute)}, {self._value(text)})"
            case Between(low, high):
                placeholder = self._name(sort_attribute)
                return f"{condition} AND {placeholder} BETWEEN {self._value(low)} AND {self._value(high)}"
            case None:
                return condition

    def _condition(self, condition: Condition, *, inside_and: bool) -> str:
        match condition:
            case Absent():
                return f"attribute_not_exists({self._name('pk')})"
            case Present():
                return f"attribute_exists({self._name('pk')})"
            case VersionIs(version):
                return f"{self._name('version')} = {self._value(version)}"
            case Missing(attribute):
                return f"attribute_not_exists({self._name(attribute)})"
            case Compare(attribute, operator, value):
                name, compared = self._name(attribute), self._value(value)
                match operator:
                    case "==":
                        return f"{name} = {compared}"
                    case "!=":
                        # `<>` alone would also hold for an item that lacks the attribute.
                        text = f"attribute_exists({name}) AND {name} <> {compared}"
                        return text if inside_and else f"({text})"
                    case _:
                        return f"{name} {operator} {compared}"
            case AllOf(conditions):
                return " AND ".join(self._condition(each, inside_and=True) for each in conditions)
            case AnyOf(conditions):
                text = " OR ".join(self._condition(each, inside_and=False) for each in conditions)
                return f"({text})" if inside_and and len(conditions) > 1 else text

    def _name(self, attribute: str) -> str:
        return self._names.setdefault(attribute, f"#n{len(self._names)}")

    def _value(self, value: Value) -> str:
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = encode(value)
        return placeholder
