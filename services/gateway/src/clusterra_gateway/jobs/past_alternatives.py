"""The shapes that were compared when workers were bought for a job, from the archived decision that named it.

They are of the decision's time: its prices, limits and failures. They were compared for one of the jobs with the same
request, by the same person.
"""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime

from clusterra_contracts.events import Event, ShapeChange
from clusterra_contracts.identity import ClusterRef, JobId
from clusterra_contracts.rpc.history import ReadHistory
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import HistoryRequests
from clusterra_gateway.jobs.alternatives import ShapeAlternative
from clusterra_gateway.jobs.stages import changes_naming, names_of

MAX_DECISIONS_READ = 500
"""How many decisions are looked at: the last ones before the job's start."""
DECISIONS_OF_PAGE = 50
"""Most jobs start soon after a decision that named them, so few pages are read. Each is parsed on the event loop."""
SEARCH_SECONDS = 3.0
"""How long the search may take in all. Each page alone may take as long as an answer of the archive."""


async def past_alternatives(
    archive: HistoryRequests, ref: ClusterRef, job_id: JobId, after: datetime, before: datetime
) -> tuple[datetime | None, tuple[ShapeAlternative, ...]]:
    """What the last decision in a period compared for a job that the viewer may see, and when; else nothing.

    It tells of this job alone, so also those who may not see decisions may see it. Nothing is told while the archive
    is away or slow.
    """
    asked = ReadHistory(
        kinds=("scale.decided",), after=after, before=before, newest_first=True, limit=DECISIONS_OF_PAGE
    )

    def enough(read: Sequence[Event]) -> bool:
        return any(True for _ in _compared(job_id, read))

    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            decisions, _ = await archive.events(ref, asked, most=MAX_DECISIONS_READ, enough=enough)
    except (RpcFailed, TimeoutError):
        return None, ()
    last = max(_compared(job_id, decisions), key=lambda each: each[0].time, default=None)
    if last is None:
        return None, ()
    event, change = last
    return event.time, tuple(map(ShapeAlternative.of, change.alternatives))


def _compared(job_id: JobId, decisions: Sequence[Event]) -> Iterator[tuple[Event, ShapeChange]]:
    """The changes whose alternatives were compared for the job."""
    names = set(names_of(job_id))
    return (
        (event, change)
        for event, _, change in changes_naming(job_id, decisions)
        if change.alternatives and names.intersection(change.compared_jobs)
    )
