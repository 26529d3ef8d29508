"""A scaler whose events are refused: the desired state is published without them, and they follow in order."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.scale import DesiredState
from clusterra_lab.machine.process import Process, start, until
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.registry import put_binding
from fleet_examples import binding, group
from nats.js.api import DiscardPolicy
from stand_ins import Neighbours, neighbours


@asynccontextmanager
async def scaler(environment: dict[str, str], directory: Path) -> AsyncIterator[Process]:
    argv = [sys.executable, "-m", "clusterra_scaler"]
    process = await start("scaler", argv, log=directory / "scaler.log", env=environment)
    try:
        yield process
    finally:
        await process.stop()


async def limit_events(client: Client, messages: int) -> None:
    """Let the stream of events refuse all beyond a number of messages; -1 lifts the limit."""
    js = client.jetstream()
    config = (await js.stream_info(EVENT.name)).config
    await js.update_stream(config.evolve(max_msgs=messages, discard=DiscardPolicy.NEW))


async def published(cluster: Neighbours, jobs: int) -> DesiredState:
    """Report so many jobs of a worker each, and return the desired state that asks for their workers."""
    cluster.pending = (group(*map(str, range(1, jobs + 1)), cpus=2),)
    await cluster.publish_snapshot()

    async def found() -> DesiredState | None:
        state = await cluster.last_desired()
        return state if state is not None and [t.replicas for t in state.targets or ()] == [jobs] else None

    return await until(found, seconds=90, what=f"the desired state for {jobs} jobs", every=0.05)


async def test_the_desired_state_does_not_wait_for_refused_events(
    environment: dict[str, str], client: Client, ref: ClusterRef, tmp_path: Path
) -> None:
    await put_binding(client, ref, binding(max_workers=20))
    async with neighbours(client, ref) as cluster, scaler(environment, tmp_path):
        await cluster.publish_heartbeat()
        before = (await client.jetstream().stream_info(EVENT.name)).state.messages
        await limit_events(client, max(before, 1))
        if not before:
            await client.jetstream().publish(f"event.{ref.tenant}.other.filler", b"{}")

        states = [await published(cluster, jobs) for jobs in (1, 2, 3)]

        assert [state.generation for state in states] == [1, 2, 3]

        await limit_events(client, -1)

        async def told() -> list[int]:
            subject = subjects.event(ref, "scale.decided")
            events = [
                decode(Event, each.body, dict(each.headers)) async for each in replay(client, EVENT.name, subject)
            ]
            generations = [int(event.data.model_dump()["generation"]) for event in events]
            return generations if len(generations) == len(states) else []

        assert await until(told, seconds=60, what="the events", every=0.2) == [1, 2, 3]
