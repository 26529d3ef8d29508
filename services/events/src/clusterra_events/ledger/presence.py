"""Which workers the heartbeats of the edges have, to end the bill of a worker whose end was never told.

The event of an end may be lost: an edge starts anew without its records, or a stream was full. Such a worker would be
billed for ever. So it ends once heartbeats have lacked its name for `ABSENT`, without a gap in between.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, WorkerName

ABSENT = timedelta(minutes=10)
FRESH = timedelta(seconds=90)
"""For how long a heartbeat counts: as long as receivers keep its prices. A longer silence says nothing of workers."""
MAX_WORKERS = 50_000
"""For how many names of a cluster it is known when they were last heard of. With more, it is found out anew."""


@dataclass(slots=True)
class _Heard:
    """The heartbeats of one cluster since the last gap, by the clock of the edge."""

    first: datetime
    last: datetime
    at: float
    """When the last one was heard, on the monotonic clock."""
    seen: dict[WorkerName, datetime] = field(default_factory=dict)
    """The last heartbeat with each worker."""


class Presence:
    """Follows the heartbeats of all clusters."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[ClusterRef, _Heard] = {}

    def on_heartbeat(self, subject: Subject, heartbeat: Heartbeat) -> None:
        """Take note of the workers in a heartbeat."""
        if heartbeat.workers is None:
            return
        at, now = heartbeat.sent_at, self._clock()
        heard = self._heard.get(subject.ref)
        if heard is None or not timedelta(0) <= at - heard.last <= FRESH or len(heard.seen) > MAX_WORKERS:
            heard = self._heard[subject.ref] = _Heard(at, at, now)
        heard.last, heard.at = at, now
        heard.seen = {name: seen for name, seen in heard.seen.items() if at - seen <= 2 * ABSENT}
        heard.seen |= dict.fromkeys((worker.name for worker in heartbeat.workers), at)

    def gone_since(self, ref: ClusterRef, worker: WorkerName, started_at: datetime) -> datetime | None:
        """When a worker was last there, by the clock of the edge; None if it may still be there.

        Where no heartbeat had it, that is the first one without it.
        """
        heard = self._heard.get(ref)
        if heard is None or self._clock() - heard.at > FRESH.total_seconds():
            return None
        since = max(heard.seen.get(worker, heard.first), started_at)
        return since if heard.last - since >= ABSENT else None
