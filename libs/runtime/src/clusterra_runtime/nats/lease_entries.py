"""Which keys of the bucket `leases` belong to live replicas, by their age: a killed server can bring back old keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from clusterra_runtime.nats.direct import Stored


@dataclass(frozen=True, slots=True)
class Entries:
    """The keys of a service in the bucket: those of live replicas, and the rest with their revisions."""

    live: frozenset[str]
    expired: Mapping[str, int]

    @classmethod
    def read(cls, stored: Iterable[Stored], ttl_seconds: float, at: datetime | None = None) -> "Entries":
        """Sort the stored keys by their age, compared with the newest one: a replica writes its own before it reads.

        Who writes no key gives the time of the server in `at`.
        A key counts as expired at twice its time to live. Before that its removal is the server's task, and the clocks
        of two servers may differ by one time to live.
        """
        found = [(each, moment) for each in stored if (moment := each.stored_at) is not None]
        newest = max((moment for _, moment in found), default=None) if at is None else at
        expired = {
            each.subject: each.sequence
            for each, moment in found
            if newest is not None and (newest - moment).total_seconds() > 2 * ttl_seconds
        }
        return cls(frozenset(each.subject for each, _ in found if each.subject not in expired), expired)
