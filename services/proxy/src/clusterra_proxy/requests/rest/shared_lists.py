"""The lists that are passed on: one of a kind is read at a time, however many clients ask for it."""

import asyncio
from datetime import datetime
from functools import partial

from clusterra_contracts.identity import now

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.cluster.recent_list import RecentList
from clusterra_proxy.cluster.recent_lists import RecentLists
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
        self._histories = RecentLists[tuple[str, Query], PackedList](
            self._read_history, PackedHistory(), most=MAX_HISTORIES
        )

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
        history = await self._histories.get((version.slurmdb("jobs/"), query))
        if sum(block.size for block in history.blocks) > HISTORY_BYTES:
            raise Invalid("these are too many jobs for one answer", hint="narrow start_time and end_time")
        return history

    async def close(self) -> None:
        """Give up the lists that are being read."""
        for each in self._lists.values():
            await each.close()
        await self._histories.close()

    def _shared(self, version: Version, model: type[PackedList], path: str) -> RecentList[PackedList]:
        key = (version.name, model)
        if key not in self._lists:
            read = partial(self._read, self._slurmctld, version.slurm(path), model, None)
            self._lists[key] = RecentList(read, model())
        return self._lists[key]

    async def _read_history(self, asked: tuple[str, Query]) -> tuple[datetime, PackedList]:
        path, query = asked
        return await self._read(self._slurmdbd, path, PackedHistory, dict(query))

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
