"""Tells operators which edge-agents are too old or too new for this release. Workers are never affected."""

import time

import structlog
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.versions import CONTRACTS, UNSTATED, Contracts
from clusterra_runtime.rate_limit import RateLimit
from prometheus_client import Gauge

log = structlog.get_logger(__name__)

INCOMPATIBLE_EDGES = Gauge(
    "clusterra_incompatible_edges",
    "Edge-agents heard in the last five minutes whose contracts do not go with those of this process",
)

HEARD_SECONDS = 300.0
LONGEST_TOLD = 64
"""How many characters are logged of what an agent says of its version: it says what it likes."""
TOLD_SECONDS = 60.0
"""How often one edge-agent is logged, after the first times: its contracts may differ in each heartbeat."""
TOLD_AT_ONCE = 3


class EdgeVersions:
    """The contracts of each cluster's edge-agent, from its heartbeats."""

    def __init__(self, own: Contracts = CONTRACTS) -> None:
        self._own = own
        self._known: dict[ClusterRef, Contracts] = {}
        self._incompatible: dict[ClusterRef, float] = {}
        self._told = RateLimit(1 / TOLD_SECONDS, TOLD_AT_ONCE)
        INCOMPATIBLE_EDGES.set_function(self._count)

    def on_heartbeat(self, subject: Subject, heartbeat: Heartbeat) -> None:
        """Notes the contracts of an edge-agent, and logs them once when they do not fit."""
        theirs = heartbeat.contracts or UNSTATED
        if self._own.works_with(theirs):
            self._incompatible.pop(subject.ref, None)
        else:
            self._incompatible[subject.ref] = time.monotonic()
        if self._known.get(subject.ref) != theirs:
            self._known[subject.ref] = theirs
            if subject.ref in self._incompatible and self._told.admits(subject.ref.key):
                newer = theirs.generation > self._own.generation
                log.error(
                    "edge_agent_incompatible",
                    agent_version=heartbeat.agent_version[:LONGEST_TOLD],
                    contracts=str(theirs)[:LONGEST_TOLD],
                    ours=str(self._own),
                    action="update the central services" if newer else "update the edge-agent of this cluster",
                )

    def _count(self) -> float:
        now = time.monotonic()
        # A copy, because a scrape counts in another thread.
        return sum(now - heard_at <= HEARD_SECONDS for heard_at in tuple(self._incompatible.values()))
