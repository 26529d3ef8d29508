"""What a table holds: items of JSON-like attributes under a two-part key, and which values may be stored."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, Inexact, localcontext

type Value = bool | int | float | str | bytes | Sequence[Value] | Mapping[str, Value] | None
type Attributes = Mapping[str, Value]

SYSTEM_ATTRIBUTES = frozenset({"pk", "sk", "version", "expires_at"})
"""Kept by the store itself and offered as fields of `Item`; no caller may name an attribute so."""
MAX_DEPTH = 32
MAX_PK_BYTES = 2048
MAX_SK_BYTES = 1024
_MAX_INTEGER = 10**38
_MAX_MAGNITUDE = 1e126
_MIN_MAGNITUDE = 1e-130


class InvalidItem(ValueError):
    """A key, attribute name or value that cannot be stored. The caller's mistake: correct it, never retry."""


@dataclass(frozen=True, slots=True)
class Key:
    """Where an item lives: all items of one `pk` are stored together, ordered by the bytes of `sk`.

    Both are non-empty, at most 2048 and 1024 bytes of UTF-8. Raises InvalidItem.
    """

    pk: str
    sk: str

    def __post_init__(self) -> None:
        for name, text, limit in (("pk", self.pk, MAX_PK_BYTES), ("sk", self.sk, MAX_SK_BYTES)):
            if not 1 <= len(_utf8(text)) <= limit:
                raise InvalidItem(f"a {name} has 1 to {limit} bytes of UTF-8: shorten it or give it a text")


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it was read. `version` counts its writes from 1; `expires_at` is in epoch seconds."""

    key: Key
    attributes: Mapping[str, Value]
    version: int
    expires_at: int | None = None


def canonical(attributes: Attributes) -> dict[str, Value]:
    """A deep copy in the form in which it will be read again, the same from every adapter.

    A number comes back as an int when it is whole (2.0 as 2), as a float otherwise; floats keep their exact
    value. Decimals are refused, because they could not be told from floats when read. Raises InvalidItem.
    """
    for name in attributes:
        if name in SYSTEM_ATTRIBUTES:
            raise InvalidItem(f"the attribute name {name!r} belongs to the store: choose another")
    return {name: _canonical(value, name, 1) for name, value in named(attributes).items()}


def named(attributes: Attributes) -> Attributes:
    """The same attributes, once their names are known to be storable. Raises InvalidItem."""
    for name in attributes:
        if not isinstance(name, str) or not name:
            raise InvalidItem(f"an attribute name is a non-empty text, not {name!r}")
    return attributes


def number_text(value: int | float) -> str:
    """A number as DynamoDB writes it: at most 38 digits, magnitude 1e-130 to 1e126. Raises InvalidItem."""
    if isinstance(value, int):
        if abs(value) >= _MAX_INTEGER:
            raise InvalidItem("an integer has at most 38 digits: store it as text")
    elif not math.isfinite(value):
        raise InvalidItem("NaN and infinity cannot be stored: use None")
    elif value != 0 and not _MIN_MAGNITUDE <= abs(value) < _MAX_MAGNITUDE:
        raise InvalidItem("a float lies between 1e-130 and 1e126 in magnitude: store it as text")
    return repr(value)


def number_from_text(text: str) -> int | float:
    """The reverse of `number_text`: whole numbers below 1e38 as int, all others as float."""
    if len(text) < 38 and text.lstrip("-").isdigit():
        return int(text)
    exact = Decimal(text)
    if abs(exact) < _MAX_INTEGER and exact == exact.to_integral_value():
        return int(exact)
    return float(text)


def sum_of(*numbers: int | float) -> int | float:
    """A sum as the store makes it: in decimal, so that 0.1 + 0.2 is 0.3. Raises InvalidItem beyond 38 digits."""
    total = Decimal(0)
    with localcontext(prec=38) as context:
        context.traps[Inexact] = True
        try:
            for number in numbers:
                total += Decimal(number_text(number))
        except Inexact as error:
            raise InvalidItem("a sum needs more than 38 digits: round what is added") from error
    return number_from_text(str(total))


def _canonical(value: Value, name: str, depth: int) -> Value:
    if depth > MAX_DEPTH:
        raise InvalidItem(f"{name!r} is nested deeper than {MAX_DEPTH} levels: flatten it or store it as text")
    match value:
        case str():
            _utf8(value)
            return value
        case None | bool() | bytes():
            return value
        case int() | float():
            return number_from_text(number_text(value))
        case Mapping():
            return {inner: _canonical(entry, name, depth + 1) for inner, entry in named(value).items()}
        case list() | tuple():
            return [_canonical(entry, name, depth + 1) for entry in value]
    raise InvalidItem(f"{name!r} holds a {type(value).__name__}, which cannot be stored: use JSON's types or bytes")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidItem("a text holds half a surrogate pair, which is no valid UTF-8: repair it") from error
