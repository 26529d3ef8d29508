"""The port to whatever runs the workers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from clusterra_contracts.events import WorkerFact
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import ShapeName, WorkerName
from clusterra_contracts.shapes import WorkerSpec

from clusterra_edge_agent.changes import Changes


class SubstrateUnavailable(Exception):
    """The substrate cannot say or do anything now. What it has is unknown, not empty."""


class StartRefused(Exception):
    """A worker could not be started; trying again makes sense after `retry_after_seconds`."""

    def __init__(self, reason: str, *, retry_after_seconds: float) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True)
class News:
    """A fact about a worker that is still to be told, with the version and time its event gets."""

    fact: WorkerFact
    version: str
    time: datetime


class Substrate(Protocol):
    """Workers go on whatever becomes of the agent; after a restart the same ones are listed."""

    @property
    def kind(self) -> Literal["process", "kubernetes"]:
        """Its name in heartbeats."""

    @property
    def changes(self) -> Changes:
        """Tells whenever `workers` or `untold` may have another answer."""

    async def workers(self) -> tuple[Worker, ...]:
        """All workers there are. Raises SubstrateUnavailable when it cannot know."""

    async def start(self, shape: ShapeName, spec: WorkerSpec) -> WorkerName:
        """Start one worker; returns when the substrate has accepted it. Raises StartRefused, SubstrateUnavailable."""

    async def remove(self, name: WorkerName) -> None:
        """End one worker; returns when the substrate has accepted it. One that is not there is no error.

        Raises SubstrateUnavailable.
        """

    def untold(self) -> tuple[News, ...]:
        """The facts that nobody has been told yet, oldest first; kept over restarts."""

    async def told(self, news: News) -> None:
        """This fact has been told. Raises SubstrateUnavailable when that cannot be kept."""
