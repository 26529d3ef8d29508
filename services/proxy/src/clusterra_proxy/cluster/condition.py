"""A cluster's condition: why it is degraded. Whoever sees a trouble says so here, and says when it is over."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import get_args

import structlog
from clusterra_contracts.condition import LONGEST_MESSAGE, Degradation, DegradedReason
from clusterra_contracts.identity import ClusterRef, now
from prometheus_client import Gauge

log = structlog.get_logger(__name__)

DEGRADED = Gauge(
    "clusterra_cluster_degraded", "1 while a cluster is degraded for this reason", ("tenant", "cluster", "reason")
)


class Condition:
    """The reasons why one cluster is degraded, in this replica.

    Both methods are idempotent and cheap, so a check calls one of them each time it runs. The replica that watches the
    cluster tells the others (`clusterra_proxy.watch.condition_report`).
    """

    def __init__(self, ref: ClusterRef) -> None:
        self._ref = ref
        self._degraded: dict[str, Degradation] = {}
        self._checked: set[str] = set()
        self._kept = True
        self.changed = asyncio.Event()
        """Set at every change; its reader clears it."""

    @property
    def degraded(self) -> Mapping[str, Degradation]:
        """A live view of the reasons, each with its message and its beginning."""
        return MappingProxyType(self._degraded)

    def degrade(self, reason: DegradedReason, message: str) -> None:
        """Say that the cluster is degraded. A repetition replaces the message; `message` must name no secret."""
        if not self._kept:
            return
        self._checked.add(reason)
        known = self._degraded.get(reason)
        text = message[:LONGEST_MESSAGE]
        if known is not None and known.message == text:
            return
        since = now() if known is None else known.since
        self._degraded[reason] = Degradation(reason=reason, message=text, since=since)
        if known is None:
            DEGRADED.labels(self._ref.tenant, self._ref.cluster, reason).set(1)
            log.warning("cluster_degraded", reason=reason, message=text)
        self.changed.set()

    def recover(self, reason: DegradedReason) -> None:
        """Say that the cluster is not degraded for this reason, or no longer."""
        if not self._kept:
            return
        self._checked.add(reason)
        if self._degraded.pop(reason, None) is not None:
            self._remove_gauge(reason)
            log.info("cluster_recovered", reason=reason)
            self.changed.set()

    def continue_from(self, told: Degradation) -> None:
        """Adopt what another replica told before: the beginning of a reason, and the reason unless it is known here."""
        known = self._degraded.get(told.reason)
        if known is not None:
            self._degraded[told.reason] = known.model_copy(update={"since": min(known.since, told.since)})
        elif told.reason in get_args(DegradedReason) and told.reason not in self._checked:
            self._degraded[told.reason] = told
            DEGRADED.labels(self._ref.tenant, self._ref.cluster, told.reason).set(1)

    def keep(self) -> None:
        """Keep the condition from now on: this replica watches the cluster."""
        self._kept = True

    def forget(self) -> None:
        """Forget everything, and ignore what is said until `keep`: another replica watches the cluster, or none."""
        self._kept = False
        for reason in self._degraded:
            self._remove_gauge(reason)
        self._degraded.clear()
        self._checked.clear()

    def _remove_gauge(self, reason: str) -> None:
        with suppress(KeyError):
            DEGRADED.remove(self._ref.tenant, self._ref.cluster, reason)
