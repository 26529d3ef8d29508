"""Publishes worker events, and retries each until it is stored."""

import asyncio
from contextlib import AbstractContextManager, suppress

import structlog
from clusterra_contracts.bus.envelope import TRACEPARENT
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime import trace, tracing
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.events import EventPublisher

from clusterra_edge_agent.control.start_traces import StartTraces
from clusterra_edge_agent.substrate.leadership import Leadership
from clusterra_edge_agent.substrate.port import Substrate, SubstrateUnavailable, WorkerEvent

log = structlog.get_logger(__name__)

RETRY_SECONDS = 5.0


async def publish_worker_events(
    publisher: EventPublisher, ref: ClusterRef, substrate: Substrate, leadership: Leadership, starts: StartTraces
) -> None:
    """Publishes pending events, oldest first, at every change while this agent holds leadership, until cancelled.

    The event of a start belongs to the trace of the decision that wanted the worker.
    """
    changed = asyncio.Event()
    substrate.change_signal.listen(changed)
    leadership.change_signal.listen(changed)
    while True:
        changed.clear()
        timeout_seconds = None
        try:
            for event in substrate.pending_events() if leadership.held else ():
                with _trace_of(event, starts):
                    await publisher.publish(ref, event.fact, version=event.version, time=event.time)
                await substrate.mark_published(event)
        except (bus.BusUnavailable, bus.MessageRejected, SubstrateUnavailable) as error:
            log.warning("news_kept_for_later", reason=str(error))
            timeout_seconds = RETRY_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await changed.wait()


def _trace_of(event: WorkerEvent, starts: StartTraces) -> AbstractContextManager[None]:
    started = starts.of(event.fact.shape) if event.fact.kind == "worker.started" else None
    if started is None:
        return trace.extract(None)
    attributes = {"clusterra.worker": event.worker, "clusterra.shape": event.fact.shape}
    tracing.record(started.traceparent, "worker starting", started.received_at, event.time, attributes)
    return trace.extract({TRACEPARENT: started.traceparent})
