"""The newest desired state is published under a held lease, also when the lease is only known to be held later."""

import asyncio

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import SCALE
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.scale import DesiredState
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_scaler.desired_publisher import DesiredPublisher
from clusterra_scaler.planner.observed.state import FleetState


def state(generation: int) -> FleetState:
    return FleetState.initial(now()).model_copy(update={"generation": generation, "fence": 1})


async def test_a_state_that_may_not_be_published_yet_is_published_later(client: Client, ref: ClusterRef) -> None:
    held = False

    async def published() -> DesiredState | None:
        found = await bus.last(client, SCALE.name, subjects.scale_desired(ref), DesiredState)
        return found[0] if found else None

    publisher = DesiredPublisher(ref, client, lambda: held)
    await publisher.publish(state(1))
    await publisher.publish(state(2))
    assert await published() is None

    held = True
    desired = await until(published, seconds=90, what="the desired state")
    await publisher.close()

    assert desired.generation == 2


async def test_the_end_leaves_no_attempt_behind(client: Client, ref: ClusterRef) -> None:
    def attempts() -> list[str]:
        return [name for task in asyncio.all_tasks() if (name := task.get_name()).startswith("publish-desired-")]

    publisher = DesiredPublisher(ref, client, lambda: False)
    await publisher.publish(state(1))
    assert len(attempts()) == 1

    await publisher.close()

    assert attempts() == []
