"""Bounds the nodes that all job records of a cluster name: a few bytes of a record name thousands."""

from clusterra_proxy.cluster.task_bound import UnreadableListener
from clusterra_proxy.slurmrestd.notation import hostlist
from clusterra_proxy.slurmrestd.reading.repair import Unreadable
from clusterra_proxy.slurmrestd.records import JobRecord

MAX_NODES = 50 * hostlist.MAX_HOSTS
"""Maximum number of nodes of all records, each counted once for each record that names it.

So 5,000 nodes may each be in 100 records. The nodes of a record beyond count as unreadable.
"""

_FIELDS = ("nodes", "required_nodes", "excluded_nodes")


class NodeBound:
    """Counts the nodes that the records of a table name."""

    def __init__(self, on_unreadable: UnreadableListener) -> None:
        self._on_unreadable = on_unreadable
        self._nodes = 0

    def admit(self, record: JobRecord, replaced: JobRecord | None) -> JobRecord:
        """Count a record. Return it, without its nodes if there are too many with those of the others."""
        if replaced is not None:
            self.release(replaced)
        nodes = _count(record)
        if self._nodes + nodes <= MAX_NODES:
            self._nodes += nodes
            return record
        fields = tuple(name for name in _FIELDS if getattr(record, name))
        problems = tuple(f"{name}: too_many_nodes" for name in fields)
        self._on_unreadable("job", (Unreadable(id=record.id, problems=problems),))
        flagged = tuple(sorted({*record.unreadable, *fields}))
        return record.model_copy(update={**dict.fromkeys(fields, ""), "unreadable": flagged})

    def release(self, record: JobRecord) -> None:
        """No longer count a record that was admitted."""
        self._nodes -= _count(record)


def _count(record: JobRecord) -> int:
    count = hostlist.count
    return count(record.nodes) + count(record.required_nodes) + count(record.excluded_nodes)
