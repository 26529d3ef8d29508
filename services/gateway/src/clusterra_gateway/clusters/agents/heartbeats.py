"""Heartbeats of edge-agents that speak HTTP: published on the bus, and answered with what the bus would have sent."""

import asyncio
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from http import HTTPStatus
from secrets import token_hex
from typing import ClassVar, override

import structlog
from aiohttp import web
from clusterra_contracts.agent_http import EVERY_SECONDS, KEY_HEADER, PATH, AgentHeartbeat, AgentHeartbeatReply
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.topology import SCALE
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import SecretReference
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.clock import generation
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.queue import last_head, last_snapshot
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable

from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, AgentKeys
from clusterra_gateway.clusters.agents.translation import CentralState, bus_heartbeat, http_reply, version_of
from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.errors import Forbidden, TooLarge, TooManyRequests, Unavailable
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES, BodyBounds
from clusterra_gateway.http.requests.parameters import body
from clusterra_gateway.http.routes.route import Route, SecurityScheme
from clusterra_gateway.http.routes.route_group import RouteGroup

log = structlog.get_logger()

READ_EVERY_SECONDS = 10.0
"""How often the queue of one large cluster is read: 60,000 records are a second of CPU. `MAX_SNAPSHOT_AGE_SECONDS` says
how long a snapshot serves."""
MAX_CLUSTERS = 64
"""How many large clusters are kept, those that were asked for last: one takes some 20 MiB."""


@dataclass(slots=True)
class _Kept:
    snapshot: QueueSnapshot | None = None
    read_at: float = float("-inf")
    reading: asyncio.Task[None] | None = None


class Queues:
    """Reads the last snapshot of a cluster; of large ones, keeps what was read last.

    No heartbeat waits for the queue of a large cluster: it gets the last known.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._large = BoundedCache[ClusterRef, _Kept](MAX_CLUSTERS)
        self._turn = asyncio.Lock()

    async def last(self, ref: ClusterRef) -> QueueSnapshot | None:
        """Returns the last snapshot; of a large one the last that was read, without its pending jobs.

        None if there is no snapshot, or no large one was read yet. Raises BusUnavailable and InvalidMessage.
        """
        kept = self._large.get(ref)
        if kept is None or (kept.reading is None and time.monotonic() >= kept.read_at + READ_EVERY_SECONDS):
            head = await last_head(self._client, ref)
            if head is None or not head.is_head:
                self._large.pop(ref)
                return head
            kept = self._large.get(ref) or _Kept()
            if kept.reading is None:
                kept.reading = asyncio.create_task(self._read(ref, kept))
        self._large.put(ref, kept)
        return kept.snapshot

    async def _read(self, ref: ClusterRef, kept: _Kept) -> None:
        try:
            async with self._turn:
                found = await last_snapshot(self._client, ref)
            if found is not None:
                kept.snapshot = found.model_copy(update={"pending": ()})
        except (BusUnavailable, InvalidMessage) as error:
            log.warning("large_queue_not_read", tenant=ref.tenant, cluster=ref.cluster, reason=str(error))
        finally:
            kept.read_at, kept.reading = time.monotonic(), None


ANSWER_SECONDS = 8.0
"""Timeout for the bus. An agent waits 10 s for its answer."""
SLURM_KEY_SECONDS = 1.5
"""Timeout for the source of the Slurm key, in addition. A later heartbeat gets the key that it answers then."""

type AgentHandler = Callable[[web.Request, AgentKeyOwner], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class AgentRoute(Route):
    """A route for a cluster's edge-agent. Its handler gets the agent's key, which names the cluster."""

    security: ClassVar[tuple[SecurityScheme, ...]] = (
        SecurityScheme("agent", {"type": "apiKey", "in": "header", "name": KEY_HEADER}),
    )

    handler: AgentHandler
    _: KW_ONLY
    access: AgentKeys

    @property
    @override
    def refuses(self) -> frozenset[HTTPStatus]:
        return frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        owner = await self.access.owner(request)
        with structlog.contextvars.bound_contextvars(tenant=owner.tenant, cluster=owner.cluster):
            return await self.handler(request, owner)


agents: RouteGroup[[web.Request, AgentKeyOwner]] = RouteGroup(AgentRoute)
MAX_VALUES = 200_000
"""A worker has some ten values."""


class AgentHeartbeats:
    """The handler of heartbeats. It takes at most one a second from each cluster."""

    def __init__(self, client: bus.Client, registry: Registry, secrets: Secrets) -> None:
        self._client = client
        self._registry = registry
        self._secrets = secrets
        self._queues = Queues(client)
        self._admitted_at: dict[ClusterRef, float] = {}
        self._generations: dict[ClusterRef, int] = {}

    @agents.post("agent_heartbeat", PATH, body=AgentHeartbeat, result=AgentHeartbeatReply)
    async def heartbeat(self, request: web.Request, owner: AgentKeyOwner) -> web.StreamResponse:
        """Takes an edge's heartbeat and returns its desired state, for agents that cannot reach NATS."""
        self._admit(owner.ref)
        most = min(MAX_BODY_BYTES, self._registry.max_heartbeat_bytes(owner.ref))
        heartbeat = await body(request, AgentHeartbeat, bounds=BodyBounds(most, MAX_VALUES))
        if heartbeat.cluster_id != owner.cluster:
            raise Forbidden(
                "this agent key belongs to another cluster",
                hint="give each agent the id and the key of its own cluster",
            )
        return json_response(await self._answer(owner, heartbeat))

    def _admit(self, ref: ClusterRef) -> None:
        """Counts a heartbeat of this cluster. Raises TooManyRequests for one within a second of the last."""
        at, before = time.monotonic(), self._admitted_at.get(ref)
        if before is not None and at - before < EVERY_SECONDS:
            raise TooManyRequests(
                "this cluster's last heartbeat is less than a second old", hint="send at most one per second"
            )
        self._admitted_at[ref] = at

    async def _answer(self, owner: AgentKeyOwner, request: AgentHeartbeat) -> AgentHeartbeatReply:
        """Publishes the heartbeat and answers it.

        Raises TooLarge; Unavailable, after which the heartbeat may have been stored or not.
        """
        ref = owner.ref
        try:
            if not self._client.is_connected:
                raise _unavailable()
            async with asyncio.timeout(ANSWER_SECONDS):
                central = await self._central_state(ref)
                heartbeat = bus_heartbeat(request, central, self._next_generation(ref))
                await bus.publish_durable(
                    self._client,
                    subjects.heartbeat(ref),
                    heartbeat,
                    # The server compares ids across all clusters: an agent that guessed one could have it dropped.
                    message_id=token_hex(16),
                )
        except (TimeoutError, bus.BusUnavailable) as error:
            log.warning("agent_heartbeat_not_stored", reason=str(error) or "it took too long")
            raise _unavailable() from error
        except bus.MessageRejected as error:
            raise TooLarge("this heartbeat is larger than a bus message may be", hint="send fewer prices") from error
        reply = http_reply(request, central)
        if central.desired is not None and version_of(central.desired) < request.last_applied_version:
            log.warning("agent_is_ahead", version=request.last_applied_version, desired=central.desired.order)
        return reply.model_copy(update={"slurm_key": await self._slurm_key(owner.slurm_key, request)})

    async def _central_state(self, ref: ClusterRef) -> CentralState:
        binding = self._registry.get(ref)
        desired, snapshot = await asyncio.gather(self._desired(ref), self._snapshot(ref))
        shapes = binding.catalogue.shapes if binding is not None else ()
        return CentralState(desired, snapshot, {shape.name: shape.worker for shape in shapes}, now())

    async def _desired(self, ref: ClusterRef) -> DesiredState | None:
        try:
            found = await bus.last(self._client, SCALE.name, subjects.scale_desired(ref), DesiredState)
        except InvalidMessage as error:
            log.warning("stored_desired_state_invalid", reason=str(error))
            return None
        return found[0] if found else None

    async def _snapshot(self, ref: ClusterRef) -> QueueSnapshot | None:
        try:
            return await self._queues.last(ref)
        except (InvalidMessage, bus.BusUnavailable) as error:
            log.warning("stored_snapshot_not_read", reason=str(error))
            return None

    def _next_generation(self, ref: ClusterRef) -> int:
        self._generations[ref] = generation(self._generations.get(ref, 0))
        return self._generations[ref]

    async def _slurm_key(self, reference: SecretReference | None, request: AgentHeartbeat) -> str | None:
        """The Slurm key for an agent that has none or another one, in Base64."""
        # Our own agent does not need it: its site gives the key to the workers.
        if reference is None or request.heartbeat is not None:
            return None
        try:
            async with asyncio.timeout(SLURM_KEY_SECONDS):
                key = await self._secrets.read_binary(reference)
        except (SecretUnavailable, TimeoutError) as error:
            log.warning("slurm_key_not_read", reason=str(error) or f"{reference} was not answered in time")
            return None
        if sha256(key).hexdigest() == request.slurm_key_hash.lower():
            return None
        log.info("slurm_key_sent")
        return b64encode(key).decode()


def _unavailable() -> Unavailable:
    return Unavailable(
        "the bus does not answer, so this heartbeat may be lost", hint="keep the present workers and try again"
    )
