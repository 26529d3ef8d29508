"""The claim of an idempotency key, as a state machine without I/O.

| the claim | a request with the same key and body |
|---|---|
| absent | claims the key and submits |
| in flight, a moment old | 409: ask again |
| in flight, or ended without an answer | looks for the job in Slurm; none yet: 409 or 504, ask again |
| not answered, and settled | claims the key again; the proxy submits after Slurm has said that there is no job |
| answered | gets the answer |

A claim is settled when none of its attempts can make a job any more. That depends on time alone, so a gateway or a
proxy may be killed at any point. Times are in epoch seconds.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, Self

from clusterra_contracts.rpc.deadlines import SETTLED_SECONDS, SUBMIT
from clusterra_contracts.rpc.slurm import Submitted

ALONE_SECONDS = 1.0
"""For this time nobody looks for the job of an attempt: almost all attempts end within it."""

type Action = Literal["answered", "reused", "wait", "look", "again"]


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of a key."""

    request: str
    """The hash of the request."""
    owner: str
    """Identifies the latest attempt."""
    claimed_at: float
    """When the first attempt began."""
    sent_at: float
    """When the latest attempt began."""
    settled_at: float
    """From then on no attempt can make a job any more."""
    ended: bool = False
    """Whether the latest attempt is known to be over."""
    answer: Submitted | None = None

    @classmethod
    def first(cls, request: str, owner: str, at: float) -> Self:
        """The claim of a new key."""
        return cls(request, owner, claimed_at=at, sent_at=at, settled_at=at + SETTLED_SECONDS)

    def again(self, owner: str, at: float) -> Self:
        """The claim of the next attempt, after this one has settled."""
        return replace(self, owner=owner, sent_at=at, settled_at=at + SETTLED_SECONDS, ended=False)

    def unconfirmed(self) -> Self:
        """The claim after its attempt ended and may have made a job."""
        return replace(self, ended=True)

    def undone(self, before: Self) -> Self:
        """The claim after its attempt ended and certainly did nothing: as settled as `before`."""
        return replace(self, ended=True, settled_at=before.settled_at)

    def action(self, request: str, at: float) -> Action:
        """What a request with this hash has to do."""
        if self.request != request:
            return "reused"
        if self.answer is not None:
            return "answered"
        if at >= self.settled_at:
            return "again"
        return "look" if self.ended or at >= self.sent_at + ALONE_SECONDS else "wait"

    def in_flight(self, at: float) -> bool:
        """Whether a gateway may still be waiting for the answer to the latest attempt."""
        return not self.ended and at < self.sent_at + SUBMIT.gateway

    def retry_after_seconds(self, at: float) -> int:
        """Seconds until the client should ask again: as long as the attempt has taken so far, but no later than its
        settling."""
        return math.ceil(max(1.0, min(at - self.sent_at, self.settled_at - at)))
