"""Counts the records that cannot be read, and names each of them in the log."""

import time
from collections.abc import Iterable

import structlog
from clusterra_contracts.identity import ClusterRef
from prometheus_client import Counter

from clusterra_proxy.slurmrestd.reading.repair import Unreadable

log = structlog.get_logger(__name__)

UNREADABLE = Counter(
    "clusterra_unreadable_records_total",
    "Records in Slurm's answers of which something could not be read, each once in an hour",
    ("tenant", "cluster", "kind"),
)
MAX_NAMED = 200
"""The number of records of a cluster that the log names in an hour."""
FORGET_SECONDS = 3600.0


class UnreadableRecords:
    """The unreadable records of one cluster. A record that is read again and again counts once in an hour.

    Beyond `MAX_NAMED` records an hour, none is logged, and each reading of one counts.
    """

    def __init__(self, ref: ClusterRef) -> None:
        self._ref = ref
        self._named: set[tuple[str, Unreadable]] = set()
        self._since = time.monotonic()

    def note(self, kind: str, found: Iterable[Unreadable]) -> None:
        """Count and log the new ones of these records. `kind` is what they are, such as `job`."""
        for each in found:
            if time.monotonic() - self._since > FORGET_SECONDS:
                self._named.clear()
                self._since = time.monotonic()
            if (kind, each) in self._named:
                continue
            UNREADABLE.labels(self._ref.tenant, self._ref.cluster, kind).inc()
            if len(self._named) < MAX_NAMED:
                self._named.add((kind, each))
                log.warning(
                    "record_unreadable",
                    tenant=self._ref.tenant,
                    cluster=self._ref.cluster,
                    kind=kind,
                    id=each.id,
                    problems=list(each.problems),
                )
