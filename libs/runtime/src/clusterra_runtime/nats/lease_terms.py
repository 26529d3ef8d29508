"""What a lease is, how fast leases change hands, and who counts their fences."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a shard. Every later lease of the shard has a higher fence, whoever holds it."""

    shard: int
    fence: int


type Work = Callable[[Lease], Coroutine[Any, Any, None]]
"""Runs while the lease is held. It is cancelled when the lease is lost or released, and should then end quickly."""


class Fences(Protocol):
    """Counts fences where nothing is forgotten (`store.fence_counter`). It is used on the thread of the leases."""

    async def next_fence(self, shard: int, floor: int) -> int:
        """Return a fence above all earlier ones of the shard, at least `floor`. Waits until it can."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast leases change hands: the shards of a dead holder are taken over within `ttl + poll` + 1 s."""

    ttl_seconds: int = 7
    """An integer, because the server counts whole seconds."""
    renew_seconds: float = 2.0
    poll_seconds: float = 1.0
    margin_seconds: float = 1.5
    """A holder gives up its lease this long before it expires at the server; its work must end in this time."""


PACE = Pace()
"""The pace of the services."""
