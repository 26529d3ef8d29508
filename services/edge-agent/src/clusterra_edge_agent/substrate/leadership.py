"""Which of a cluster's agents acts, where there may be several: a port, since only some substrates need to be told.

Two agents may run by mistake, for a moment, or for a long time: a node that is cut off keeps its agent, a volume may be
mounted twice, somebody may start one beside the cluster. Hence:

- Only an agent that **holds** (`held`) changes anything: it applies desired states, deletes the NodeClaims of ghosts
  and pods that have failed. It asks before every single call, also amid a desired state. Only it tells news.
- Only an agent that **speaks** (`speaks`) sends heartbeats, by NATS or HTTP, and answers log reads. Of two the scaler
  would believe the one whose clock is ahead, and would take what the other has applied for undone. An agent is silent
  from its start until it has asked who holds, and as long as the last answer was "another". One that cannot ask any
  more goes on speaking, if it did before: that the substrate cannot be seen is worth telling, and what it then tells
  names no workers.
- All agents follow desired states and workers, so that the next one acts at once. The end of a worker is told by the
  agent that acted then: no other knows whom it has removed (`another_acts`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from clusterra_edge_agent.substrate.changes import Changes


class Leadership(Protocol):
    """What one agent knows of its right to act."""

    @property
    def changes(self) -> Changes:
        """Tells when this agent holds or speaks from now on, or has learned that it does not any more."""

    @property
    def held(self) -> bool:
        """Whether this agent may change things at this very moment."""

    @property
    def speaks(self) -> bool:
        """Whether this agent is the one that tells of the edge and answers for it."""

    @property
    def another_acts(self) -> bool:
        """Whether another agent has been seen alive lately, and holds."""

    async def run(self) -> None:
        """Get the right to act, and keep it, until cancelled."""


class Sole:
    """Of an agent that is the only one for another reason, such as the lock of its state folder."""

    held = True
    speaks = True
    another_acts = False

    def __init__(self) -> None:
        self.changes = Changes()

    async def run(self) -> None:
        """Runs until cancelled."""
        await asyncio.Event().wait()


async def while_speaking(leadership: Leadership, begin: Callable[[], Awaitable[Callable[[], Awaitable[None]]]]) -> None:
    """`begin` whenever this agent speaks from now on, and call what it returned once it does not; until cancelled."""
    changed = asyncio.Event()
    leadership.changes.listen(changed)
    end: Callable[[], Awaitable[None]] | None = None
    while True:
        changed.clear()
        if leadership.speaks and end is None:
            end = await begin()
        elif not leadership.speaks and end is not None:
            await end()
            end = None
        else:
            await changed.wait()
