"""Who holds a Lease of coordination.k8s.io, from the view of one agent. Pure.

As in client-go, times are seconds of the agent's own clock, and a record is valid for its duration from the moment at
which this agent observed its change. The times of other machines are never compared.

    0   the holder sends a renewal
    10  unless another renewal was answered, the holder begins no more changes (`HOLD_SECONDS`)
    14  all its changes have ended: none takes longer than 4 s (`api.CHANGE_SECONDS`)
    15  the earliest moment at which another agent may begin (`LEASE_SECONDS`)

The last second allows for clocks that run at different speeds. The guarantee requires that nobody edits the record by
hand. Clearing it, or deleting it before another agent has observed it, hands the Lease over at once, while the holder
notices within 2 s.
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
"""Interval between renewals, and between observations of another agent's record."""

_NEVER = -math.inf

type _MicroTime = Annotated[Moment, PlainSerializer(lambda moment: moment.isoformat(timespec="microseconds"))]
"""The API server accepts exactly six digits."""


def _or(default: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: default if value is None else value)


class LeaseSpec(Resource):
    """The record of the holder. An empty name: nobody."""

    holder_identity: Annotated[str, _or("")] = ""
    lease_duration_seconds: Annotated[int, _or(LEASE_SECONDS)] = LEASE_SECONDS
    acquire_time: _MicroTime | None = None
    renew_time: _MicroTime | None = None
    lease_transitions: Annotated[int, _or(0)] = 0


class Lease(Object):
    """A Lease object."""

    spec: LeaseSpec = LeaseSpec()


class ElectionRecord:
    """The Lease as the agent with this identity knows it. `now` is in seconds of one clock that never goes back."""

    def __init__(self, identity: str) -> None:
        self.lease: Lease | None = None
        """The Lease as last observed; None if there was none."""
        self.hold_until = _NEVER
        """This agent may begin changes before this moment."""
        self._identity = identity
        self._record = LeaseSpec()
        """The last record, even if the Lease has since been deleted."""
        self._observed_at = _NEVER
        self._renewed = False

    def holds(self, now: float) -> bool:
        """Whether this agent may begin a change."""
        return now < self.hold_until

    @property
    def held_by_another(self) -> bool:
        """Whether the last record names another agent, alive or not."""
        return self._record.holder_identity not in ("", self._identity)

    def another_acts(self, now: float) -> bool:
        """Whether another agent was observed to renew, and its last record is still valid."""
        return self.held_by_another and self._renewed and self.wait_seconds(now) > 0

    def wait_seconds(self, now: float) -> float:
        """Returns the seconds until this agent may try to become the holder."""
        if not self.held_by_another:
            return 0.0
        return max(0.0, self._observed_at + max(self._record.lease_duration_seconds, LEASE_SECONDS) - now)

    def observe(self, lease: Lease | None, now: float) -> None:
        """Records an observation of the Lease that was answered by `now`."""
        before, self.lease = self.lease, lease
        if lease is None:
            # Its holder may not know yet that it was deleted, so the last record stays valid.
            self.hold_until = _NEVER
        elif before is None or _version(before) != _version(lease):
            self._renewed = before is not None and lease.spec.holder_identity == self._record.holder_identity
            self._record, self._observed_at = lease.spec, now
        if self.held_by_another:
            self.hold_until = _NEVER

    def next_spec(self, now: float, wall: datetime) -> LeaseSpec | None:
        """Returns the spec to write if the Lease is still as observed, or None while another agent holds it."""
        if self.wait_seconds(now) > 0:
            return None
        last = self._record
        # Other agents recognize a renewal by a changed time. After this machine's clock was set back, the time could be
        # the same again.
        renewed_at = wall if wall != last.renew_time else wall + timedelta(microseconds=1)
        if last.holder_identity == self._identity:
            return last.model_copy(update={"renew_time": renewed_at, "lease_duration_seconds": LEASE_SECONDS})
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=LEASE_SECONDS,
            acquire_time=renewed_at,
            renew_time=renewed_at,
            lease_transitions=last.lease_transitions + 1,
        )

    def rejected(self) -> None:
        """Records that the write was rejected because the Lease has changed since its last observation."""
        self.hold_until = _NEVER

    def accepted(self, lease: Lease, sent_at: float) -> None:
        """Records that the write was accepted, by a call that began at `sent_at`."""
        self.lease, self._record, self._observed_at = lease, lease.spec, sent_at
        self.hold_until = sent_at + HOLD_SECONDS

    def release(self) -> LeaseSpec:
        """Returns the spec that lets the next agent begin at once. From now on this agent begins nothing."""
        self.hold_until = _NEVER
        return self._record.model_copy(update={"holder_identity": ""})


def _version(lease: Lease) -> tuple[str, str]:
    return lease.metadata.uid, lease.metadata.resource_version
