"""Who holds a Lease of coordination.k8s.io, as one agent can know it. Pure.

As client-go has it: times are seconds of the agent's own clock, and a record is valid for its duration from the moment
that this agent saw it change. What another machine calls the time is never compared with anything.

    0   the holder sends a renewal
    10  unless another was answered meanwhile, it begins no change any more (`HOLD_SECONDS`)
    14  all its changes have ended: none takes longer than 4 s (`api.CHANGE_SECONDS`)
    15  the earliest moment at which another may begin (`LEASE_SECONDS`)

The last second is for clocks that do not run alike. It takes a record that nobody edits by hand: who empties it, or
deletes it before anybody else has seen it, hands the Lease over at once, while the holder learns of it within 2 s.
"""

import math
from datetime import datetime, timedelta
from typing import Annotated, Any

from clusterra_contracts.identity import Moment
from pydantic import BeforeValidator, PlainSerializer

from clusterra_edge_agent.kubernetes.client.resources import Object, Resource

LEASE_SECONDS = 15
HOLD_SECONDS = 10.0
RENEW_SECONDS = 2.0
"""Between renewals, and between two looks at another's."""

_NEVER = -math.inf

type _MicroTime = Annotated[Moment, PlainSerializer(lambda moment: moment.isoformat(timespec="microseconds"))]
"""The API server reads exactly six digits."""


def _or(default: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: default if value is None else value)


class LeaseSpec(Resource):
    """A record of who holds. An empty name: nobody."""

    holder_identity: Annotated[str, _or("")] = ""
    lease_duration_seconds: Annotated[int, _or(LEASE_SECONDS)] = LEASE_SECONDS
    acquire_time: _MicroTime | None = None
    renew_time: _MicroTime | None = None
    lease_transitions: Annotated[int, _or(0)] = 0


class Lease(Object):
    """A Lease."""

    spec: LeaseSpec = LeaseSpec()


class Tenure:
    """What an agent of this identity knows. All calls take `now`, in seconds of one clock that never goes back."""

    def __init__(self, identity: str) -> None:
        self.lease: Lease | None = None
        """As it was seen last; None when there was none."""
        self.until = _NEVER
        """This agent may begin changes before this moment."""
        self._identity = identity
        self._record = LeaseSpec()
        """The last one, also of a Lease that is gone."""
        self._seen_at = _NEVER
        self._renewed = False

    def holds(self, now: float) -> bool:
        """Whether this agent may begin a change."""
        return now < self.until

    @property
    def is_another_s(self) -> bool:
        """Whether the last record names another agent, alive or not."""
        return self._record.holder_identity not in ("", self._identity)

    def another_acts(self, now: float) -> bool:
        """Whether another agent has been seen to renew, and its last record is valid."""
        return self.is_another_s and self._renewed and self.seconds_to_wait(now) > 0

    def seconds_to_wait(self, now: float) -> float:
        """Until this agent may try to become the holder."""
        if not self.is_another_s:
            return 0.0
        return max(0.0, self._seen_at + max(self._record.lease_duration_seconds, LEASE_SECONDS) - now)

    def saw(self, lease: Lease | None, now: float) -> None:
        """A look at the Lease was answered by `now`."""
        before, self.lease = self.lease, lease
        if lease is None:
            # Whoever held it cannot know yet that it is gone: its last record stays valid.
            self.until = _NEVER
        elif before is None or _version(before) != _version(lease):
            self._renewed = before is not None and lease.spec.holder_identity == self._record.holder_identity
            self._record, self._seen_at = lease.spec, now
        if self.is_another_s:
            self.until = _NEVER

    def wanted(self, now: float, wall: datetime) -> LeaseSpec | None:
        """What to write, on condition that the Lease is still as it was seen; None while it is another's."""
        if self.seconds_to_wait(now) > 0:
            return None
        last = self._record
        # Others wait for a change, and to write the same again is none, however the clock of this machine was set.
        renewed_at = wall if wall != last.renew_time else wall + timedelta(microseconds=1)
        if last.holder_identity == self._identity:
            return last.model_copy(update={"renew_time": renewed_at, "lease_duration_seconds": LEASE_SECONDS})
        return LeaseSpec(
            holder_identity=self._identity,
            acquire_time=renewed_at,
            renew_time=renewed_at,
            lease_transitions=last.lease_transitions + 1,
        )

    def was_refused(self) -> None:
        """What was wanted was not written, for the Lease is not any more as it was seen."""
        self.until = _NEVER

    def wrote(self, lease: Lease, sent_at: float) -> None:
        """What was wanted has been written by a call that began at `sent_at`."""
        self.lease, self._record, self._seen_at = lease, lease.spec, sent_at
        self.until = sent_at + HOLD_SECONDS

    def released(self) -> LeaseSpec:
        """What to write so that the next agent need not wait; from now on this one begins nothing."""
        self.until = _NEVER
        return self._record.model_copy(update={"holder_identity": ""})


def _version(lease: Lease) -> tuple[str, str]:
    return lease.metadata.uid, lease.metadata.resource_version
