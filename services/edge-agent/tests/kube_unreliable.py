"""An unreliable API client, and an agent that is held up or killed around each of its calls."""

import asyncio
import random
import time
from collections import Counter
from typing import Any, Protocol

from clusterra_edge_agent.kubernetes.client.api import Api
from clusterra_edge_agent.kubernetes.client.errors import Throttled, Unavailable
from clusterra_edge_agent.kubernetes.client.resources import Pod, Scale
from kube_agent import Agent

HELD_UP_SECONDS = 0.5
"""Maximum time for which the agent is held up at a step."""


class Troubles(Protocol):
    """What decides on each failure."""

    rng: random.Random
    counts: Counter[str]
    agent: Agent
    removals: list[float]
    """When the agent looked at the newest desired state before each call that removes workers."""

    def happens(self, what: str, probability: float) -> bool:
        """Whether this failure occurs now."""


async def hold_up(troubles: Troubles) -> None:
    """Holds the agent up for a moment."""
    if troubles.happens("agent held up", 0.3):
        await asyncio.sleep(troubles.rng.uniform(0, HELD_UP_SECONDS))


class UnreliableApi(Api):
    """An API client whose calls are throttled or lose their replies, and whose caller may be killed around each."""

    def __init__(self, api: Api, chaos: Troubles) -> None:
        super().__init__(api._client, api.namespace, api.leadership)
        self._chaos = chaos

    async def scale(self, name: str, replicas: int, **options: Any) -> Scale:
        self._note_removal()
        await self._before()
        return await self._after(await super().scale(name, replicas, **options))

    async def set_deletion_cost(self, pod: Pod, cost: int) -> Pod:
        await hold_up(self._chaos)
        await self._before()
        return await self._after(await super().set_deletion_cost(pod, cost))

    async def delete(self, pod: Pod) -> Pod:
        self._note_removal()
        await self._before()
        return await self._after(await super().delete(pod))

    def _note_removal(self) -> None:
        """Right after the agent has looked again, with nothing in between that waits."""
        self._chaos.removals.append(time.monotonic())

    async def _before(self) -> None:
        if self._chaos.happens("throttled", 0.03):
            raise Throttled("too many requests", retry_after_seconds=0.05)
        await self._maybe_killed()

    async def _after[A](self, answer: A) -> A:
        await self._maybe_killed()
        if self._chaos.happens("reply lost", 0.05):
            raise Unavailable("the connection broke")
        return answer

    async def _maybe_killed(self) -> None:
        task = self._chaos.agent.task
        if task is not None and self._chaos.happens("agent killed", 0.05):
            task.cancel()
            await asyncio.sleep(0)
