"""Leader election by the Lease `clusterra-edge-agent` in the workers' namespace: its holder acts.

See `substrate.leadership` for what that means, and `election.record` for the timing.

An agent that cannot reach the API server stops acting after 10 s, keeps following, and acts again once it holds the
Lease. A call that is in progress when the Lease is lost cannot be recalled. It ends within 4 s, because the API server
aborts what its caller has aborted, and thus 1 s before another agent may begin. A machine that is suspended between its
check of the clock and the call may still be late. Then the preconditions of the call protect: a resource version for
lower replicas, the uid of what is deleted.
"""

import asyncio
import secrets
import socket
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import structlog
from clusterra_contracts.identity import now
from prometheus_client import Gauge
from pydantic import BaseModel, ConfigDict

from clusterra_edge_agent.kubernetes.client.api import Api, Collection
from clusterra_edge_agent.kubernetes.client.errors import ApiError, Conflict, NotFound, Throttled, Unavailable
from clusterra_edge_agent.kubernetes.election.record import RENEW_SECONDS, ElectionRecord, Lease, LeaseSpec
from clusterra_edge_agent.substrate import state_files
from clusterra_edge_agent.substrate.change_signal import ChangeSignal

log = structlog.get_logger(__name__)

NAME = "clusterra-edge-agent"
"""No ConfigMap has this name: kustomize would also add its hash suffix to the name in the Role."""
CALL_SECONDS = 3.0
"""Time limit of a renewal. After one that hangs there is time for two more before the Lease is lost."""
RETRY_SECONDS = 1.0

HELD = Gauge("clusterra_edge_lease_held", "1 if this agent holds the Lease and acts, 0 if it stands by")


class _Incarnation(BaseModel):
    model_config = ConfigDict(frozen=True)

    token: str


def identity(folder: Path) -> str:
    """Returns the host's name (in Kubernetes the pod's) with a token that is unique to this state folder.

    It survives a killed container. The next one may continue immediately, because only one agent at a time uses a state
    folder. Raises state_files.StateUnreadable, OSError.
    """
    file = folder / "identity.json"
    stored = state_files.read(file, _Incarnation)
    if stored is None:
        stored = _Incarnation(token=secrets.token_hex(4))
        state_files.write(file, stored)
    return f"{socket.gethostname()}_{stored.token}"


def _boot_seconds() -> float:
    """Seconds of a clock that keeps running while the machine sleeps, as the clocks of other machines do."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class KubernetesLease:
    """The `Leadership` of one agent by a Lease."""

    def __init__(
        self,
        api: Api,
        identity: str,
        *,
        clock: Callable[[], float] = _boot_seconds,
        wall: Callable[[], datetime] = now,
    ) -> None:
        """`api` must not be bound to this leadership. `clock` returns seconds, `wall` the time shown to people."""
        self.change_signal = ChangeSignal()
        self._api = api
        self._identity = identity
        self._leases = Collection(f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases", "", Lease)
        self._record = ElectionRecord(identity)
        self._clock = clock
        self._wall = wall
        self._polled = False
        self._unchanged = False
        """Whether the last known state of the Lease is what this agent itself wrote."""
        self._last_warning = ""
        HELD.set_function(lambda: float(self.held))

    @property
    def held(self) -> bool:
        """See `Leadership`."""
        return self._record.holds(self._clock())

    @property
    def may_report(self) -> bool:
        """See `Leadership`."""
        return self._polled and not self._record.held_by_another

    @property
    def another_acts(self) -> bool:
        """See `Leadership`."""
        return self._record.another_acts(self._clock())

    async def run(self) -> None:
        """Holds the Lease as soon and as long as possible, until cancelled."""
        held, could_report = False, False
        while True:
            until = self._record.hold_until
            pause_seconds = await self._poll()
            self._polled = True
            # It may have expired for a moment, in which something was skipped.
            held = held and self._clock() < until
            if (held, could_report) != (self.held, self.may_report):
                held, could_report = self.held, self.may_report
                log.info("lease_changed", held=held, holder=self._holder(), identity=self._identity)
                self.change_signal.notify()
            await asyncio.sleep(pause_seconds)

    async def release(self) -> None:
        """Releases the Lease after the last change, so that the next agent can begin at once, not after its expiry."""
        wanted = self._record.release()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                # A renewal that was cancelled may still have been accepted.
                found = await self._api.get(self._leases, NAME)
                if found.spec.holder_identity == self._identity:
                    await self._api.replace(self._leases, found, _wire(wanted))
                    log.info("lease_released")
        except (ApiError, TimeoutError) as error:
            log.warning("lease_not_released", reason=str(error) or "the API server did not answer")

    async def _poll(self) -> float:
        """Renews the Lease, or observes its holder. Returns the seconds until the next poll."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._renew_or_observe()
        except Conflict:
            # Another agent was faster: observe it now.
            self._record.rejected()
            return 0.0
        except Throttled as error:
            self._warn(error)
            return max(error.retry_after_seconds, RETRY_SECONDS)
        except TimeoutError:
            self._warn(Unavailable("the API server did not answer"))
            return RETRY_SECONDS
        except ApiError as error:
            self._warn(error)
            return RETRY_SECONDS
        self._last_warning = ""
        return min(RENEW_SECONDS, self._record.wait_seconds(self._clock()) or RENEW_SECONDS)

    async def _renew_or_observe(self) -> None:
        """Renews or acquires the Lease if this agent may, else observes it.

        Raises ApiError, TimeoutError; the state of the Lease is unknown then.
        """
        if not self._unchanged:
            found = await self._find()
            self._record.observe(found, self._clock())
        self._unchanged = False
        sent_at = self._clock()
        wanted = self._record.next_spec(sent_at, self._wall())
        if wanted is None:
            return
        lease = self._record.lease
        if lease is None:
            written = await self._api.create(self._leases, NAME, _wire(wanted))
        else:
            written = await self._api.replace(self._leases, lease, _wire(wanted))
        self._record.accepted(written, sent_at)
        self._unchanged = True

    async def _find(self) -> Lease | None:
        try:
            return await self._api.get(self._leases, NAME)
        except NotFound:
            return None

    def _holder(self) -> str:
        return self._record.lease.spec.holder_identity if self._record.lease is not None else ""

    def _warn(self, error: ApiError) -> None:
        """Logs once per kind of error, until it is over."""
        kind = type(error).__name__
        if kind != self._last_warning:
            self._last_warning = kind
            log.warning("lease_not_renewed", held=self.held, reason=str(error).strip())


def _wire(spec: LeaseSpec) -> dict[str, object]:
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True)
