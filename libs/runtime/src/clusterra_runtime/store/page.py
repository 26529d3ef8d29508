"""Reading a partition: which sort keys, and how to go on after a page of them."""

import base64
import binascii
from dataclasses import dataclass, replace

from clusterra_runtime.store.item import InvalidItem, Item, Key


class InvalidCursor(ValueError):
    """A cursor that no page of this query gave. Start again without one."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Sort keys that begin so; not empty."""

    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise InvalidItem("a prefix is not empty: to read the whole partition give none")

    def covers(self, sk: str) -> bool:
        """Whether a sort key begins so."""
        return sk.startswith(self.text)


@dataclass(frozen=True, slots=True)
class Between:
    """Sort keys from `low` to `high`, both included, ordered by their bytes."""

    low: str
    high: str

    def __post_init__(self) -> None:
        if not self.low or self.high < self.low:
            raise InvalidItem("a range has a non-empty lower end, and an upper end that is not below it")

    def covers(self, sk: str) -> bool:
        """Whether a sort key lies in the range."""
        return self.low <= sk <= self.high


type SortRange = Prefix | Between


@dataclass(frozen=True, slots=True)
class Page:
    """Some items in order. `cursor` continues after the last one, and is None when nothing follows."""

    items: tuple[Item, ...]
    cursor: str | None


def cursor_after(key: Key) -> str:
    """The cursor that continues after this item. It holds no partition, so it opens no other one."""
    return base64.urlsafe_b64encode(key.sk.encode()).decode().rstrip("=")


def continue_after(pk: str, sort: SortRange | None, cursor: str | None) -> Key | None:
    """The key to continue after; None: from the beginning.

    Raises InvalidItem for an impossible partition, and InvalidCursor for a cursor that was made up.
    """
    start = Key(pk, "-")
    if cursor is None:
        return None
    try:
        sk = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        after = replace(start, sk=sk)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursor("this cursor is not from an earlier page: start again without one") from error
    if sort is not None and not sort.covers(sk):
        raise InvalidCursor("this cursor is from a page of another range: start again without one")
    return after
