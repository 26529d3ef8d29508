"""With whom the job of a session shares its worker: whoever takes its port there would receive the owner's token."""

from typing import Literal

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import now
from clusterra_runtime.nats import bus
from gateway_world import World
from template_definition import OWN
from test_templates import called, published

SESSIONS = "/v1/clusters/main/sessions"
INTERACTIVE = OWN.replace("kind: batch", "kind: interactive").replace(
    "outputs: {dir: .}", "routing: {path_prefix: /sessions, port_param: whom}"
)


async def workers_are(world: World, substrate: Literal["process", "kubernetes"]) -> None:
    """Say on the bus what the edge's workers are."""
    heartbeat = Heartbeat(generation=1, sent_at=now(), agent_version="0.1.0", substrate=substrate, workers=())
    told = f"{substrate} at {heartbeat.sent_at.isoformat()}"
    await bus.publish_durable(world.client, subjects.heartbeat(world.acme.ref), heartbeat, message_id=told)


@pytest.mark.parametrize(("substrate", "shared"), [("process", None), ("kubernetes", ("user",))])
async def test_others_share_the_worker_only_where_the_agent_sees_whose_a_server_is(
    world: World, substrate: Literal["process", "kubernetes"], shared: tuple[str, ...] | None
) -> None:
    ada = await world.login("ada@acme.example")
    await workers_are(world, substrate)

    await called(ada, "POST", SESSIONS, {"template_id": "jupyter"}, status=201)

    assert [submit.job.shared for submit in world.acme.submits] == [shared]


@pytest.mark.parametrize(("line", "shared"), [("--exclusive", ("none",)), ("--exclusive=user", ("user",))])
async def test_a_session_that_asks_for_a_whole_worker_has_it(world: World, line: str, shared: tuple[str, ...]) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    template_id = await published(ada, boss, INTERACTIVE.replace("--time=5", line))
    await workers_are(world, "kubernetes")

    await called(ada, "POST", SESSIONS, {"template_id": template_id}, status=201)

    assert [submit.job.shared for submit in world.acme.submits] == [shared]
