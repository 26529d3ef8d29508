"""Read-through cache of recent lists by key: concurrent readers of a key share one read."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime
from functools import partial

from clusterra_proxy.cluster.recent_list import RecentList
from clusterra_proxy.slurmrestd.errors import Unavailable


class RecentLists[K: Hashable, T]:
    """At most `most` recent lists, which may have `most_records` together, counted by `size`.

    `read` and `abandons` are those of `RecentList`. A list that is larger than `most_records` is kept, and all others
    are forgotten for it.
    """

    def __init__(
        self,
        read: Callable[[K], Awaitable[tuple[datetime, T]]],
        empty: T,
        *,
        most: int,
        size: Callable[[T], int] = lambda _list: 0,
        most_records: int = 0,
        abandons: bool = False,
    ) -> None:
        self._read_list = read
        self._empty = empty
        self._most = most
        self._size = size
        self._most_records = most_records
        self._abandons = abandons
        self._lists: OrderedDict[K, RecentList[T]] = OrderedDict()

    async def get(self, key: K, changed_at: datetime | None = None) -> T:
        """Return the list of a key; one from before `changed_at` is read again.

        Raises Unavailable while too many others are being read, and what `read` raises."""
        if key not in self._lists:
            self._make_room()
            self._lists[key] = RecentList(partial(self._read, key), self._empty, abandons=self._abandons)
        self._lists.move_to_end(key)
        return await self._lists[key].get(changed_at)

    @property
    def records(self) -> int:
        """How many records are kept."""
        return sum(self._size(each.kept) for each in self._lists.values())

    async def close(self) -> None:
        """Give up the lists that are being read."""
        for each in self._lists.values():
            await each.close()

    async def _read(self, key: K) -> tuple[datetime, T]:
        began, found = await self._read_list(key)
        left = self._most_records - self._size(found)
        for other, each in tuple(self._lists.items()):
            if self.records - self._size(self._lists[key].kept) <= left:
                break
            if other != key:
                each.forget()
        return began, found

    def _make_room(self) -> None:
        """Forget the list that was asked for longest ago. Raises Unavailable when all are being read."""
        if len(self._lists) < self._most:
            return
        oldest = next((key for key, each in self._lists.items() if not each.reading), None)
        if oldest is None:
            raise Unavailable("others are reading the history of jobs", hint="try again in a moment")
        self._lists.pop(oldest).forget()
