"""The port to the substrate: whatever runs the workers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from clusterra_contracts.events import MisclassifiedFact, WorkerFact
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import JobId, WorkerName
from clusterra_contracts.scale import DesiredState

from clusterra_edge_agent.substrate.change_signal import ChangeSignal


class SubstrateUnavailable(Exception):
    """The workers cannot be read or changed now. They are unknown, not absent."""


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """A worker event that is not published yet, with the version and time that it will carry."""

    worker: WorkerName
    fact: WorkerFact | MisclassifiedFact
    version: str
    time: datetime


@dataclass(frozen=True, slots=True)
class SessionServer:
    """The server of a session, as its job tells it."""

    job_id: JobId
    uid: int
    """The job's owner."""
    port: int
    client_port: int | None = None
    """The agent's port of a connection to the server: then whoever has accepted the connection is checked, too."""


class DesiredCheck(Protocol):
    """Whether a desired state is still the one to apply. An agent may be held up at any step of a pass."""

    def is_current(self) -> bool:
        """Whether the agent has received no newer desired state, and may act."""

    async def look_again(self) -> bool:
        """Reads the newest desired state again. Returns whether it is still this one, and the agent may act.

        Called right before each removal, with nothing in between that waits. Raises SubstrateUnavailable when the
        newest desired state cannot be read: it may have taken the worker back.
        """


class Substrate(Protocol):
    """Runs workers. They outlive the agent: after a restart of the agent the same workers are listed."""

    @property
    def kind(self) -> Literal["process", "kubernetes"]:
        """The substrate's name in heartbeats."""

    @property
    def change_signal(self) -> ChangeSignal:
        """Notified whenever `workers` or `pending_events` may have changed."""

    async def run(self) -> None:
        """Follows the workers, until cancelled."""

    async def workers(self) -> tuple[Worker, ...]:
        """Returns all workers. Raises SubstrateUnavailable when they are unknown."""

    async def apply(self, desired: DesiredState, check: DesiredCheck) -> float | None:
        """Does everything towards `desired` that can be done now, as long as it is current.

        Only victims are removed, each after `check.look_again`, and an `unregistered` one only while its slurmd does
        not serve (see `add_unregistered_victims`). A shape that is not listed is left unchanged. Returns the seconds
        after which to call again for what could not be done, or None when the substrate has accepted everything.
        Raises SubstrateUnavailable.
        """

    def pending_events(self) -> tuple[WorkerEvent, ...]:
        """Returns the events that are not published yet, oldest first. They are kept over restarts."""

    async def mark_published(self, event: WorkerEvent) -> None:
        """Records that this event has been published. Raises SubstrateUnavailable when the record cannot be written."""

    async def session_host(self, worker: WorkerName, server: SessionServer) -> str | None:
        """Returns the host to connect to for a session's server; None where that may not be, or not yet.

        Never another server than one of the session's owner, as far as the substrate can see whose it is.
        """
