"""Reads of outputs at the edge, shared by those who ask for the same part at the same time.

All followers of an output that have read everything wait for the same bytes. So the edge has one reader for each output
and gateway, however many people follow it. A follower who is behind reads by itself until it has caught up.
"""

import asyncio
from functools import partial

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge import LogChunk, ReadLog

from clusterra_gateway.bus.requests import EdgeRequests

type _Part = tuple[ClusterRef, ReadLog]


class SharedReads:
    """The reads in flight. Whoever asks has the right to see the output: that is checked before."""

    def __init__(self, edge: EdgeRequests) -> None:
        self._edge = edge
        self._reads: dict[_Part, asyncio.Task[LogChunk]] = {}

    async def output(self, ref: ClusterRef, part: ReadLog) -> LogChunk:
        """A part of a job's output, as `EdgeRequests.output` reads it. Raises RpcFailed."""
        key = (ref, part)
        read = self._reads.get(key)
        if read is None:
            read = self._reads[key] = asyncio.create_task(self._edge.output(ref, part))
            read.add_done_callback(partial(self._over, key))
        # A follower who leaves ends its own wait, and not the read of the others.
        return await asyncio.shield(read)

    def _over(self, key: _Part, read: asyncio.Task[LogChunk]) -> None:
        del self._reads[key]
        if not read.cancelled():
            read.exception()  # nobody may be left who wants to know it
