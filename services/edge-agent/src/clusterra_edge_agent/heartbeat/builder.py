"""Builds heartbeats: the full state of the edge at one moment."""

from collections.abc import Callable, Mapping
from datetime import datetime

import structlog
from clusterra_contracts.heartbeat import Applied, Heartbeat, Worker
from clusterra_contracts.identity import MAX_AGE, MAX_CLOCK_AHEAD, WorkerName, now
from clusterra_contracts.versions import CONTRACTS
from clusterra_runtime.clock import generation

from clusterra_edge_agent.heartbeat.edge_status import EdgeStatus
from clusterra_edge_agent.substrate.port import Substrate, SubstrateUnavailable

log = structlog.get_logger(__name__)


class HeartbeatBuilder:
    """Builds the heartbeats of one cluster for both routes, NATS and HTTP, with increasing generations."""

    def __init__(
        self,
        substrate: Substrate,
        applied: Callable[[], Applied | None],
        version: str,
        edge_status: Callable[[], EdgeStatus] = EdgeStatus,
        login_end: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        """`applied` returns the last desired state that was carried out; `version` is the agent's own.

        `login_end` returns when the agent's login at NATS ends; None where it does not.
        """
        self._substrate = substrate
        self._applied = applied
        self._version = version
        self._edge_status = edge_status
        self._login_end = login_end
        self._generation = 0

    async def build(self) -> Heartbeat:
        """Returns the next heartbeat, with the state of this moment."""
        self._generation = generation(self._generation)
        edge_status = self._edge_status()
        return Heartbeat(
            generation=self._generation,
            sent_at=now(),
            agent_version=self._version,
            contracts=CONTRACTS,
            login_expires_at=_within_bounds(self._login_end()),
            substrate=self._substrate.kind,
            applied=self._applied(),
            workers=_with_interruptions(await self._workers(), edge_status.interruptions),
            stuck=edge_status.stuck,
            nodes=edge_status.nodes,
            node_claims=edge_status.node_claims,
            prices=edge_status.prices,
        )

    async def _workers(self) -> tuple[Worker, ...] | None:
        try:
            return await self._substrate.workers()
        except SubstrateUnavailable as error:
            log.warning("workers_not_listed", reason=str(error))
            return None


def _within_bounds(login_end: datetime | None) -> datetime | None:
    """The end of the login, unless it is so far away that receivers would refuse the heartbeat."""
    if login_end is None or abs(login_end - now()) > MAX_AGE - MAX_CLOCK_AHEAD:
        return None
    return login_end


def _with_interruptions(
    workers: tuple[Worker, ...] | None, interruptions: Mapping[WorkerName, datetime]
) -> tuple[Worker, ...] | None:
    if workers is None or not interruptions:
        return workers
    return tuple(
        worker.model_copy(update={"leaves_by": interruptions[worker.name]}) if worker.name in interruptions else worker
        for worker in workers
    )
