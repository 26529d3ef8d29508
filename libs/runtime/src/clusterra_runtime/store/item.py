"""What a table holds: items of JSON-like attributes under a two-part key, and which values may be stored."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, Inexact, localcontext

type Value = bool | int | float | str | bytes | Sequence[Value] | Mapping[str, Value] | None
type Attributes = Mapping[str, Value]

SYSTEM_ATTRIBUTES = frozenset({"pk", "sk", "version", "expires_at"})
"""The store keeps these itself and offers them as fields of `Item`; callers must not use the names."""
MAX_DEPTH = 32
MAX_PK_BYTES = 2048
MAX_SK_BYTES = 1024
_MAX_INTEGER = 10**38
_MAX_MAGNITUDE = 1e126
_MIN_MAGNITUDE = 1e-130


class InvalidItem(ValueError):
    """A key, attribute name or value cannot be stored. The caller must correct it; a retry cannot help."""


@dataclass(frozen=True, slots=True)
class Key:
    """Where an item lives: items with the same `pk` are stored together, ordered by the bytes of `sk`.

    `pk` has 1 to 2048 bytes of UTF-8, `sk` 1 to 1024. Raises InvalidItem.
    """

    pk: str
    sk: str

    def __post_init__(self) -> None:
        for name, text, limit in (("pk", self.pk, MAX_PK_BYTES), ("sk", self.sk, MAX_SK_BYTES)):
            if not 1 <= len(_utf8(text)) <= limit:
                raise InvalidItem(f"a {name} must have 1 to {limit} bytes of UTF-8")


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it was read. `version` counts its writes from 1; `expires_at` is in epoch seconds."""

    key: Key
    attributes: Mapping[str, Value]
    version: int
    expires_at: int | None = None


def canonical(attributes: Attributes) -> dict[str, Value]:
    """Returns a deep copy in the form in which every adapter returns it when it is read again.

    A whole number comes back as an int (2.0 as 2), any other number as a float with its exact value. Decimals are
    rejected, because a read could not tell them from floats. Raises InvalidItem.
    """
    for name in attributes:
        if name in SYSTEM_ATTRIBUTES:
            raise InvalidItem(f"the attribute name {name!r} belongs to the store: choose another")
    return {name: _canonical(value, name, 1) for name, value in _with_valid_names(attributes).items()}


def exact_decimal(value: int | float) -> Decimal:
    """Returns a number as DynamoDB stores it: at most 38 digits, magnitude 1e-130 to 1e126. Raises InvalidItem."""
    if isinstance(value, int):
        if abs(value) >= _MAX_INTEGER:
            raise InvalidItem("an integer must have at most 38 digits: store it as a string")
    elif not math.isfinite(value):
        raise InvalidItem("NaN and infinity cannot be stored: use None")
    elif value != 0 and not _MIN_MAGNITUDE <= abs(value) < _MAX_MAGNITUDE:
        raise InvalidItem("a float must have a magnitude of 1e-130 to 1e126: store it as a string")
    return Decimal(repr(value))


def number_of(exact: Decimal) -> int | float:
    """The reverse of `exact_decimal`: a whole number below 1e38 becomes an int, any other number a float."""
    if abs(exact) < _MAX_INTEGER and exact == exact.to_integral_value():
        return int(exact)
    return float(exact)


def sum_of(*numbers: int | float) -> int | float:
    """Adds as DynamoDB does: in decimal, so that 0.1 + 0.2 is 0.3. Raises InvalidItem beyond 38 digits."""
    total = Decimal(0)
    with localcontext(prec=38) as context:
        context.traps[Inexact] = True
        try:
            for number in numbers:
                total += exact_decimal(number)
        except Inexact as error:
            raise InvalidItem("a sum needs more than 38 digits: round its terms") from error
    return number_of(total)


def _canonical(value: Value, name: str, depth: int) -> Value:
    if depth > MAX_DEPTH:
        raise InvalidItem(f"{name!r} is nested deeper than {MAX_DEPTH} levels: flatten it or store it as a string")
    match value:
        case str():
            _utf8(value)
            return value
        case None | bool() | bytes():
            return value
        case int() | float():
            return number_of(exact_decimal(value))
        case Mapping():
            return {inner: _canonical(entry, name, depth + 1) for inner, entry in _with_valid_names(value).items()}
        case list() | tuple():
            return [_canonical(entry, name, depth + 1) for entry in value]
    raise InvalidItem(f"{name!r} holds a {type(value).__name__}, which cannot be stored: use JSON's types or bytes")


def _with_valid_names(attributes: Attributes) -> Attributes:
    for name in attributes:
        if not isinstance(name, str) or not name:
            raise InvalidItem(f"an attribute name must be a non-empty string, not {name!r}")
    return attributes


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidItem("a string holds half a surrogate pair, which is not valid UTF-8") from error
