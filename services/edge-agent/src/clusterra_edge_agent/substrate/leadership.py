"""Leadership: which of a cluster's agents acts. It is a port, because only some substrates need an election.

Two agents may run by mistake, for a moment or for a long time: a node that is cut off from the network keeps its agent,
a volume may be mounted twice, or somebody starts an agent outside the cluster. Therefore:

- Only the agent that **holds** leadership (`held`) changes anything: it applies desired states and deletes idle
  NodeClaims and failed pods. It checks before every single call, also in the middle of a desired state. Only it
  publishes worker events.
- Only the agent that **may report** (`may_report`) sends heartbeats, on NATS or by HTTP, and answers log reads. If two
  agents reported, the scaler would believe the one whose clock is ahead, and would not see what the other has applied.
  An agent is silent from its start until it knows the holder, and for as long as another agent is the last
  known holder. An agent that reported and then loses the API server keeps reporting. Its heartbeats then list no
  workers (null), and so show that the substrate is unreachable.
- All agents follow desired states and workers, so that the next leader can act immediately. The end of a worker is
  reported by the agent that was acting at that time, because no other knows which workers it removed (`another_acts`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from clusterra_edge_agent.substrate.change_signal import ChangeSignal


class Leadership(Protocol):
    """One agent's view of its right to act."""

    @property
    def change_signal(self) -> ChangeSignal:
        """Notified when `held` or `may_report` changes."""

    @property
    def held(self) -> bool:
        """Whether this agent may change things at this moment."""

    @property
    def may_report(self) -> bool:
        """Whether this agent is the one that reports on the edge and answers requests for it."""

    @property
    def another_acts(self) -> bool:
        """Whether another agent holds leadership and was recently observed to renew it."""

    async def run(self) -> None:
        """Acquires leadership and keeps it, until cancelled."""


class Sole:
    """Leadership of an agent that is unique for another reason, such as the lock on its state folder."""

    held = True
    may_report = True
    another_acts = False

    def __init__(self) -> None:
        self.change_signal = ChangeSignal()

    async def run(self) -> None:
        """Waits until cancelled."""
        await asyncio.Event().wait()


type End = Callable[[], Awaitable[None]]
type Begin = Callable[[], Awaitable[End]]


async def while_reporting(leadership: Leadership, begin: Begin) -> None:
    """Runs a task only while this agent may report, until cancelled.

    Calls `begin` when this agent may report, and the function it returned when it no longer may.
    """
    changed = asyncio.Event()
    leadership.change_signal.listen(changed)
    end: End | None = None
    while True:
        changed.clear()
        if leadership.may_report and end is None:
            end = await begin()
        elif not leadership.may_report and end is not None:
            await end()
            end = None
        else:
            await changed.wait()
