"""The port to whatever runs the workers."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from clusterra_contracts.events import MisclassifiedFact, WorkerFact
from clusterra_contracts.heartbeat import Worker
from clusterra_contracts.identity import WorkerName
from clusterra_contracts.scale import DesiredState

from clusterra_edge_agent.substrate.changes import Changes


class SubstrateUnavailable(Exception):
    """The substrate cannot say or do anything now. What it has is unknown, not empty."""


@dataclass(frozen=True, slots=True)
class News:
    """A fact about a worker that is still to be told, with the version and time its event gets."""

    worker: WorkerName
    fact: WorkerFact | MisclassifiedFact
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

    async def run(self) -> None:
        """Follow what happens to workers, until cancelled."""

    async def workers(self) -> tuple[Worker, ...]:
        """All workers there are. Raises SubstrateUnavailable when it cannot know."""

    async def apply(self, desired: DesiredState, is_current: Callable[[], bool]) -> float | None:
        """Do all that leads to `desired` and can be done now, as long as `is_current`.

        Only victims are ended, and a shape that is not listed is left alone. After how many seconds to call again for
        what could not be done; None when the substrate has accepted everything. Raises SubstrateUnavailable.
        """

    def untold(self) -> tuple[News, ...]:
        """The facts that nobody has been told yet, oldest first; kept over restarts."""

    async def told(self, news: News) -> None:
        """This fact has been told. Raises SubstrateUnavailable when that cannot be kept."""
