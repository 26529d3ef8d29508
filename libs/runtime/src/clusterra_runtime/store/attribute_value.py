"""DynamoDB's attribute values: items and values in the form in which they travel, made by boto3's serializer."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from clusterra_runtime.store.item import Item, Key, Value, exact_decimal, number_of

type AttributeValue = dict[str, Any]
"""One value under the name of its DynamoDB type: `{"N": "1.5"}`."""
type Record = dict[str, AttributeValue]
"""An item in DynamoDB's form."""


class _Serializer(TypeSerializer):
    """boto3's serializer takes numbers as int or Decimal only; the store's are int or float."""

    def _is_number(self, value: object) -> bool:
        return isinstance(value, int | float)

    def _serialize_n(self, value: int | float) -> str:
        return str(exact_decimal(value))


class _Deserializer(TypeDeserializer):
    """boto3's deserializer makes Decimal and Binary, and raises for numbers of more than 38 digits, such as 1e100."""

    def _deserialize_n(self, value: str) -> int | float:
        return number_of(Decimal(value))

    def _deserialize_b(self, value: bytes) -> bytes:
        return value


_SERIALIZER = _Serializer()
_DESERIALIZER = _Deserializer()


def serialize(value: Value) -> AttributeValue:
    """Returns a value in DynamoDB's form. Raises InvalidItem for a number that cannot be stored."""
    return cast(AttributeValue, _SERIALIZER.serialize(value))


def deserialize(value: AttributeValue) -> Value:
    """The reverse of `serialize`."""
    deserialized: Value = _DESERIALIZER.deserialize(cast(Any, value))
    return deserialized


def key_record(key: Key) -> Record:
    """The two attributes of the primary key."""
    return {"pk": serialize(key.pk), "sk": serialize(key.sk)}


def item_record(item: Item) -> Record:
    """A whole item in DynamoDB's form."""
    record = key_record(item.key) | {"version": serialize(item.version)}
    if item.expires_at is not None:
        record["expires_at"] = serialize(item.expires_at)
    return record | {name: serialize(value) for name, value in item.attributes.items()}


def key_of(record: Mapping[str, AttributeValue]) -> Key:
    """The key of an item or of an index entry."""
    return Key(record["pk"]["S"], record["sk"]["S"])


def item_of(record: Mapping[str, AttributeValue]) -> Item:
    """The reverse of `item_record`. Raises TypeError for a record that this store did not write."""
    attributes = {name: deserialize(value) for name, value in record.items() if name not in {"pk", "sk"}}
    version, expires_at = attributes.pop("version", 0), attributes.pop("expires_at", None)
    if not isinstance(version, int) or not isinstance(expires_at, int | None):
        raise TypeError("the version or expiry of an item is not an integer: this store did not write it")
    return Item(key_of(record), attributes, version, expires_at)
