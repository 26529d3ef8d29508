"""Stand-ins for the scaler's neighbours on the bus: a proxy that carries out requests, and an edge."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import MESSAGE_ID
from clusterra_contracts.bus.large_queue import encode_large
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.bus.topology import EVENT, SCALE
from clusterra_contracts.events import Event
from clusterra_contracts.heartbeat import Applied, Heartbeat, Worker
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm_nodes import DRAIN_REASON_PREFIX, DeleteNode, Drain, Drained, Undrain
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.clock import generation
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.bus import Client


class Neighbours:
    """The proxy and the edge of one cluster. A test sets what they report."""

    def __init__(self, client: Client, ref: ClusterRef) -> None:
        self.client = client
        self.ref = ref
        self.pending: tuple[PendingJobs, ...] = ()
        self.running: tuple[RunningJob, ...] = ()
        self.nodes: dict[str, NodeState] = {}
        self.requests: list[Drain | Undrain | DeleteNode] = []
        self.desired: list[DesiredState] = []
        self._last = 0

    async def publish_snapshot(self, *, pending: bool = True) -> None:
        """Publish a snapshot, with the pending jobs or without them as if they could not be read."""
        await self._publish(
            subjects.job_pending(self.ref),
            QueueSnapshot(
                generation=self._next(),
                taken_at=now(),
                pending=self.pending if pending else None,
                running=self.running,
                nodes=tuple(self.nodes.values()),
            ),
        )

    async def publish_heartbeat(self, *workers: Worker) -> None:
        """Publish a heartbeat of an edge that has carried out the last desired state it received."""
        applied = self.desired[-1] if self.desired else None
        await self._publish(
            subjects.heartbeat(self.ref),
            Heartbeat(
                generation=self._next(),
                sent_at=now(),
                agent_version="1",
                substrate="process",
                applied=Applied(generation=applied.generation, fence=applied.fence, applied_at=now())
                if applied
                else None,
                workers=workers,
            ),
        )

    async def last_desired(self) -> DesiredState | None:
        """Read the last desired state from its stream."""
        found = await bus.last(self.client, SCALE.name, subjects.scale_desired(self.ref), DesiredState)
        return found[0] if found else None

    async def last_event(self) -> Event | None:
        """Read the event of the last decision from its stream."""
        found = await bus.last(self.client, EVENT.name, subjects.event(self.ref, "scale.decided"), Event)
        return found[0] if found else None

    async def on_desired(self, _subject: Subject, desired: DesiredState) -> None:
        self.desired.append(desired)

    async def drain(self, _subject: Subject, request: Drain) -> Drained:
        self.requests.append(request)
        self._set(request.node, ("IDLE", "DRAIN"), DRAIN_REASON_PREFIX + request.reason)
        return Drained(accepted_at=now())

    async def undrain(self, _subject: Subject, request: Undrain) -> Done:
        self.requests.append(request)
        self._set(request.node, ("IDLE",), "")
        return Done()

    async def delete(self, _subject: Subject, request: DeleteNode) -> Done:
        self.requests.append(request)
        self.nodes.pop(request.node, None)
        return Done()

    def _set(self, name: str, states: tuple[str, ...], reason: str) -> None:
        self.nodes[name] = self.nodes[name].model_copy(update={"states": states, "reason": reason})

    def _next(self) -> int:
        self._last = generation(self._last)
        return self._last

    async def _publish(self, subject: str, message: QueueSnapshot | Heartbeat) -> None:
        await bus.publish_durable(
            self.client, subject, message, message_id=f"{self.ref.key}:{type(message).__name__}:{message.generation}"
        )


@asynccontextmanager
async def neighbours(client: Client, ref: ClusterRef) -> AsyncIterator[Neighbours]:
    """Run the stand-ins until the block ends."""
    stand_in = Neighbours(client, ref)
    subscriptions = [
        await bus.subscribe(client, subjects.scale_desired(ref), DesiredState, stand_in.on_desired),
        await rpc.serve(client, subjects.slurm(ref, "drain"), Drain, stand_in.drain),
        await rpc.serve(client, subjects.slurm(ref, "undrain"), Undrain, stand_in.undrain),
        await rpc.serve(client, subjects.slurm(ref, "delete-node"), DeleteNode, stand_in.delete),
    ]
    try:
        yield stand_in
    finally:
        for subscription in subscriptions:
            await subscription.unsubscribe()


async def tell_large(client: Client, ref: ClusterRef, pending: PendingJobs) -> None:
    """Publish a queue as the proxy does with a large one."""
    at = now()
    snapshot = QueueSnapshot(
        generation=generation(0), taken_at=at, published_at=at, pending=(pending,), running=(), nodes=()
    )
    body, headers = encode_large(snapshot)
    headers[MESSAGE_ID] = f"{ref.key}:{snapshot.generation}"
    await bus.store(client, subjects.job_pending(ref), body, headers)
