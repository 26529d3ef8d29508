"""Bounds the nodes that all job records of a cluster name: a few bytes of a record name thousands."""

from collections import Counter

from clusterra_proxy.cluster.task_bound import UnreadableListener
from clusterra_proxy.slurmrestd.notation import hostlist
from clusterra_proxy.slurmrestd.reading.repair import Unreadable
from clusterra_proxy.slurmrestd.records import JobRecord

MAX_NODES = 50 * hostlist.MAX_HOSTS
"""Maximum number of nodes of all records, each counted once for each record that names it.

So 5,000 nodes may each be in 100 records. The nodes of a record beyond count as unreadable.
"""
ASKED_SHARE = 3
"""The nodes that one user's jobs ask for or exclude may be at most this many times the nodes that are left afterwards:
three quarters of MAX_NODES if nobody else has any. Such jobs need never start, so their number has no other bound.
"""

_ASKED = ("required_nodes", "excluded_nodes")


class NodeBound:
    """Counts the nodes that the records of a table name."""

    def __init__(self, on_unreadable: UnreadableListener) -> None:
        self._on_unreadable = on_unreadable
        self._nodes = 0
        self._asked = Counter[int | None]()
        """By user, the nodes that the records ask for."""

    def admit(self, record: JobRecord, replaced: JobRecord | None) -> JobRecord:
        """Count a record. Return it, without those of its nodes that are too many with those of the others."""
        if replaced is not None:
            self.release(replaced)
        admitted = self._within(record)
        self._count(admitted, 1)
        return admitted

    def _within(self, record: JobRecord) -> JobRecord:
        fields: tuple[str, ...] = ()
        left = MAX_NODES - self._nodes - hostlist.count(record.nodes)
        if left < 0:
            fields, left = ("nodes",), MAX_NODES - self._nodes
        asked = _asked(record)
        if asked and self._asked[record.user_id] + asked > ASKED_SHARE * (left - asked):
            fields += tuple(name for name in _ASKED if getattr(record, name))
        if not fields:
            return record
        problems = tuple(f"{name}: too_many_nodes" for name in fields)
        self._on_unreadable("job", (Unreadable(id=record.id, problems=problems),))
        flagged = tuple(sorted({*record.unreadable, *fields}))
        return record.model_copy(update={**dict.fromkeys(fields, ""), "unreadable": flagged})

    def release(self, record: JobRecord) -> None:
        """No longer count a record that was admitted."""
        self._count(record, -1)

    def _count(self, record: JobRecord, times: int) -> None:
        asked = times * _asked(record)
        self._nodes += times * hostlist.count(record.nodes) + asked
        if asked:
            self._asked[record.user_id] += asked
            if not self._asked[record.user_id]:
                del self._asked[record.user_id]


def _asked(record: JobRecord) -> int:
    return hostlist.count(record.required_nodes) + hostlist.count(record.excluded_nodes)
