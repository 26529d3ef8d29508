"""DynamoDB's expressions: conditions by boto3's builder; updates by hand, as boto3 has no builder for them."""

from typing import Any

from boto3.dynamodb.conditions import Attr, ConditionBase, ConditionExpressionBuilder
from boto3.dynamodb.conditions import Key as KeyAttribute

from clusterra_runtime.store.attribute_value import Record, serialize
from clusterra_runtime.store.condition import Condition
from clusterra_runtime.store.item import Item, Value, canonical
from clusterra_runtime.store.page import Between, Prefix, SortRange
from clusterra_runtime.store.store import Update


def live(condition: Condition | None, now: int) -> ConditionBase:
    """The condition, and that the item has not expired at `now` (epoch seconds). An absent item has not expired."""
    expires_at = Attr("expires_at")
    unexpired = expires_at.not_exists() | expires_at.gt(now)
    return unexpired if condition is None else condition & unexpired


def unchanged(item: Item) -> ConditionBase:
    """An item with an expiry is still as it was read."""
    return Attr("version").eq(item.version) & Attr("expires_at").eq(item.expires_at)


def key_condition(partition: tuple[str, str], sort_attribute: str, sort: SortRange | None) -> ConditionBase:
    """The keys that a query reads: a partition, as (attribute, value), and a range of the sort attribute."""
    attribute, value = partition
    in_partition = KeyAttribute(attribute).eq(value)
    match sort:
        case Prefix(text):
            return in_partition & KeyAttribute(sort_attribute).begins_with(text)
        case Between(low, high):
            return in_partition & KeyAttribute(sort_attribute).between(low, high)
        case None:
            return in_partition


class Expression:
    """The expressions of one request. All names and values are placeholders, because many names are reserved words."""

    def __init__(self) -> None:
        self._builder = ConditionExpressionBuilder()
        self._names: dict[str, str] = {}
        self._values: Record = {}

    def placeholders(self) -> dict[str, Any]:
        """The request parameters that give the placeholders' meaning."""
        request: dict[str, Any] = {"ExpressionAttributeNames": self._names}
        if self._values:
            request["ExpressionAttributeValues"] = self._values
        return request

    def condition(self, condition: ConditionBase, *, is_key_condition: bool = False) -> str:
        """A condition as an expression. Call it once per request."""
        built = self._builder.build_expression(condition, is_key_condition=is_key_condition)
        self._names |= built.attribute_name_placeholders
        self._values |= {name: serialize(value) for name, value in built.attribute_value_placeholders.items()}
        return built.condition_expression

    def update(self, update: Update) -> str:
        """The changes of an update as an expression. Raises InvalidItem for values that cannot be stored."""
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

    def _name(self, attribute: str) -> str:
        placeholder = f"#u{len(self._names)}"
        self._names[placeholder] = attribute
        return placeholder

    def _value(self, value: Value) -> str:
        placeholder = f":u{len(self._values)}"
        self._values[placeholder] = serialize(value)
        return placeholder
