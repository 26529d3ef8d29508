"""The lists that are passed on: one of a kind is read at a time, however many clients ask for it."""

import asyncio
from collections import OrderedDict
from datetime import datetime
from functools import partial

from clusterra_contracts.identity import now

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.cluster.recent_list import RecentList
from clusterra_proxy.slurmrestd.errors import Invalid, Unavailable
from clusterra_proxy.slurmrestd.relay.lists import PackedHistory, PackedJobs, PackedList, PackedNodes
from clusterra_proxy.slurmrestd.versions import Version

MAX_HISTORIES = 8
"""How many lists of slurmdbd are kept, each for some seconds, or being read."""
HISTORY_BYTES = 16 * 1024 * 1024
"""Maximum size of such a list, compressed: some 50,000 jobs."""

type Query = tuple[tuple[str, str], ...]


class SharedLists:
    """The lists of one cluster. Of slurmctld's lists one is in flight at a time, and so of slurmdbd's."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._slurmctld, self._slurmdbd = asyncio.Lock(), asyncio.Lock()
        self._lists: dict[tuple[str, type[PackedList]], RecentList[PackedList]] = {}
        self._histories: OrderedDict[tuple[str, Query], RecentList[PackedList]] = OrderedDict()

    async def jobs(self, version: Version) -> PackedList:
        """Return the jobs of all users. Shows every change that was made through this replica."""
        await self._cluster.wait_for_own_changes()
        return await self._shared(version, PackedJobs, "jobs/").get(self._cluster.changed_at)

    async def nodes(self, version: Version) -> PackedList:
        """Return all nodes."""
        return await self._shared(version, PackedNodes, "nodes/").get()

    async def history(self, version: Version, query: Query) -> PackedList:
        """Return the jobs of slurmdbd that match. The query must say whose they are.

        Raises Invalid for too many jobs, and Unavailable while too many other lists are being read.
        """
        key = (version.name, query)
        if key not in self._histories:
            self._make_room()
            read = partial(self._read, self._slurmdbd, version.slurmdb("jobs/"), PackedHistory, dict(query))
            self._histories[key] = RecentList(read, PackedHistory())
        self._histories.move_to_end(key)
        history = await self._histories[key].get()
        if sum(block.size for block in history.blocks) > HISTORY_BYTES:
            raise Invalid("these are too many jobs for one answer", hint="narrow start_time and end_time")
        return history

    def _make_room(self) -> None:
        """Forget the list that was asked for longest ago. Raises Unavailable when all are being read."""
        if len(self._histories) < MAX_HISTORIES:
            return
        oldest = next((key for key, each in self._histories.items() if not each.reading), None)
        if oldest is None:
            raise Unavailable("others are reading the history of jobs", hint="try again in a moment")
        del self._histories[oldest]

    async def close(self) -> None:
        """Give up the lists that are being read."""
        for each in (*self._lists.values(), *self._histories.values()):
            await each.close()

    def _shared(self, version: Version, model: type[PackedList], path: str) -> RecentList[PackedList]:
        key = (version.name, model)
        if key not in self._lists:
            read = partial(self._read, self._slurmctld, version.slurm(path), model, None)
            self._lists[key] = RecentList(read, model())
        return self._lists[key]

    async def _read(
        self, turn: asyncio.Lock, path: str, model: type[PackedList], query: dict[str, str] | None
    ) -> tuple[datetime, PackedList]:
        async with turn:
            began = now()
            token = self._cluster.mint.operator_token()
            answer = await self._cluster.slurmctld.rest.read_list(path, token, model, entity=model.KIND, query=query)
        if answer is None:
            raise Unavailable("slurmrestd says that nothing has changed, though it was not asked that")
        return began, answer
