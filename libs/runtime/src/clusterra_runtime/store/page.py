"""Reading a partition in pages: ranges of sort keys, and cursors."""

import base64
import binascii
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace

from clusterra_runtime.store.item import InvalidItem, Item, Key


class InvalidCursor(ValueError):
    """A cursor does not come from a page of this query. Start again without a cursor."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Sort keys that begin with a non-empty string."""

    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise InvalidItem("a prefix must not be empty: to read the whole partition, give no range")

    def covers(self, sk: str) -> bool:
        """Whether a sort key has the prefix."""
        return sk.startswith(self.text)


@dataclass(frozen=True, slots=True)
class Between:
    """Sort keys from `low` to `high`, both inclusive, ordered by their bytes."""

    low: str
    high: str

    def __post_init__(self) -> None:
        if not self.low or self.high < self.low:
            raise InvalidItem("a range must have a non-empty lower end, and an upper end that is not below it")

    def covers(self, sk: str) -> bool:
        """Whether a sort key lies in the range."""
        return self.low <= sk <= self.high


type SortRange = Prefix | Between


@dataclass(frozen=True, slots=True)
class Page:
    """Items in order. `cursor` continues after the last item; None means that nothing follows."""

    items: tuple[Item, ...]
    cursor: str | None


async def all_items(read: Callable[[str | None], Awaitable[Page]]) -> AsyncGenerator[Item]:
    """The items of all pages. `read` reads the page after a cursor, as soon as all items before it are taken."""
    cursor = None
    while True:
        page = await read(cursor)
        for item in page.items:
            yield item
        if (cursor := page.cursor) is None:
            return


def cursor_after(key: Key) -> str:
    """The cursor that continues after an item. It holds no partition, so it gives no access to another partition."""
    return base64.urlsafe_b64encode(key.sk.encode()).decode().rstrip("=")


def scan_cursor(key: Key) -> str:
    """The cursor that continues a scan after an item."""
    return base64.urlsafe_b64encode(json.dumps([key.pk, key.sk]).encode()).decode()


def scan_after(cursor: str | None) -> Key | None:
    """The key to continue a scan after; None means from the beginning. Raises InvalidCursor."""
    if cursor is None:
        return None
    try:
        pk, sk = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
        return Key(pk, sk)
    except (binascii.Error, ValueError, TypeError, AttributeError) as error:
        raise InvalidCursor("this cursor is not from an earlier page: start again without a cursor") from error


def continue_after(pk: str, sort: SortRange | None, cursor: str | None) -> Key | None:
    """The key to continue after; None means from the beginning.

    Raises InvalidItem for an invalid partition, and InvalidCursor for a forged cursor.
    """
    start = Key(pk, "-")
    if cursor is None:
        return None
    try:
        sk = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        after = replace(start, sk=sk)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursor("this cursor is not from an earlier page: start again without a cursor") from error
    if sort is not None and not sort.covers(sk):
        raise InvalidCursor("this cursor is from a page of another range: start again without a cursor")
    return after
