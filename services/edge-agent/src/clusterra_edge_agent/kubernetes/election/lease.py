"""The Lease `clusterra-edge-agent` of the workers' namespace: of several agents its holder acts.

See `leadership` for what that means, and `tenure` for when.

An agent that cannot reach the API server stops acting after 10 s, follows on, and acts again once it has the Lease.
A call that is under way when the Lease is lost cannot be recalled: it ends within 4 s, for the API server gives up what
its caller has given up, and 1 s before another agent may begin. A machine that is paused between the look at its clock
and the call may still be late. Then it finds the conditions of the call: a resource version for lower replicas, the uid
of what is deleted.
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
from clusterra_edge_agent.kubernetes.election.record import RENEW_SECONDS, Lease, LeaseSpec, Tenure
from clusterra_edge_agent.substrate import state_files as state
from clusterra_edge_agent.substrate.changes import Changes

log = structlog.get_logger(__name__)

NAME = "clusterra-edge-agent"
"""No ConfigMap is called so, else kustomize would give the name of the right to it another ending."""
CALL_SECONDS = 3.0
"""Of a renewal: one that hangs leaves time for two more before the Lease is lost."""
RETRY_SECONDS = 1.0

HELD = Gauge("clusterra_edge_lease_held", "Whether this agent is the one that acts: 1, of one that stands by 0")


class _Incarnation(BaseModel):
    model_config = ConfigDict(frozen=True)

    token: str


def identity(folder: Path) -> str:
    """The host's name, in Kubernetes the pod's, with what no other state folder has.

    It outlives a killed container, which may go on at once, as its state folder has one agent at a time. Raises
    state.StateUnreadable, OSError.
    """
    file = folder / "identity.json"
    kept = state.read(file, _Incarnation)
    if kept is None:
        kept = _Incarnation(token=secrets.token_hex(4))
        state.write(file, kept)
    return f"{socket.gethostname()}_{kept.token}"


def _boot_seconds() -> float:
    """Seconds that also pass while the machine sleeps, when others' go on."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class KubernetesLease:
    """The `Leadership` of one agent."""

    def __init__(
        self,
        api: Api,
        identity: str,
        *,
        clock: Callable[[], float] = _boot_seconds,
        wall: Callable[[], datetime] = now,
    ) -> None:
        """`api` must not be one that asks for this Lease itself. `clock`: seconds; `wall`: what people read."""
        self.changes = Changes()
        self._api = api
        self._identity = identity
        self._leases = Collection(f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases", "", Lease)
        self._tenure = Tenure(identity)
        self._clock = clock
        self._wall = wall
        self._asked = False
        self._sure = False
        """Whether the Lease was last seen as we have written it ourselves."""
        self._warned_of = ""
        HELD.set_function(lambda: float(self.held))

    @property
    def held(self) -> bool:
        """See `Leadership`."""
        return self._tenure.holds(self._clock())

    @property
    def speaks(self) -> bool:
        """See `Leadership`."""
        return self._asked and not self._tenure.is_another_s

    @property
    def another_acts(self) -> bool:
        """See `Leadership`."""
        return self._tenure.another_acts(self._clock())

    async def run(self) -> None:
        """Hold it as long and as soon as that is possible, until cancelled."""
        held, spoke = False, False
        while True:
            until = self._tenure.until
            pause_seconds = await self._look()
            self._asked = True
            # It may have run out for a moment, in which something was left undone.
            held = held and self._clock() < until
            if (held, spoke) != (self.held, self.speaks):
                held, spoke = self.held, self.speaks
                log.info("lease_changed", held=held, holder=self._holder(), identity=self._identity)
                self.changes.tell()
            await asyncio.sleep(pause_seconds)

    async def release(self) -> None:
        """Let the next agent begin at once, when this one has ended all it did. Without the API server it waits."""
        wanted = self._tenure.released()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                # A renewal that was cut off may have been accepted.
                found = await self._api.get(self._leases, NAME)
                if found.spec.holder_identity == self._identity:
                    await self._api.replace(self._leases, found, _wire(wanted))
                    log.info("lease_released")
        except (ApiError, TimeoutError) as error:
            log.warning("lease_not_released", reason=str(error) or "the API server does not answer")

    async def _look(self) -> float:
        """Renew it, or see whose it is; after how many seconds to do so again."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._try()
        except Conflict:
            # Somebody was faster, who is to be seen.
            self._tenure.was_refused()
            return 0.0
        except Throttled as error:
            self._warn(error)
            return max(error.retry_after_seconds, RETRY_SECONDS)
        except TimeoutError:
            self._warn(Unavailable("the API server does not answer"))
            return RETRY_SECONDS
        except ApiError as error:
            self._warn(error)
            return RETRY_SECONDS
        self._warned_of = ""
        return min(RENEW_SECONDS, self._tenure.seconds_to_wait(self._clock()) or RENEW_SECONDS)

    async def _try(self) -> None:
        """Raises ApiError, TimeoutError; what has become of the Lease is unknown then."""
        if not self._sure:
            found = await self._find()
            self._tenure.saw(found, self._clock())
        self._sure = False
        sent_at = self._clock()
        wanted = self._tenure.wanted(sent_at, self._wall())
        if wanted is None:
            return
        lease = self._tenure.lease
        if lease is None:
            written = await self._api.create(self._leases, NAME, _wire(wanted))
        else:
            written = await self._api.replace(self._leases, lease, _wire(wanted))
        self._tenure.wrote(written, sent_at)
        self._sure = True

    async def _find(self) -> Lease | None:
        try:
            return await self._api.get(self._leases, NAME)
        except NotFound:
            return None

    def _holder(self) -> str:
        return self._tenure.lease.spec.holder_identity if self._tenure.lease is not None else ""

    def _warn(self, error: ApiError) -> None:
        """Once of each kind of trouble, until it is over."""
        kind = type(error).__name__
        if kind != self._warned_of:
            self._warned_of = kind
            log.warning("lease_not_renewed", held=self.held, reason=str(error).strip())


def _wire(spec: LeaseSpec) -> dict[str, object]:
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True)
