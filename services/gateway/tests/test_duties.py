"""What a gateway runs that only serves the API, and one that only does the background work."""

import asyncio

import aiohttp
import pytest
from clusterra_gateway.app import COMMANDS, gateway_on
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from gateway_world import World, _Service

WORK = {"projection", "kept events", "outbox", "deletions", "runs", "runs outbox", "schedules", "templates outbox"}
WORK |= {"idle sessions", "staging", "identity maps", "quotas", "budgets", "deactivations", "webhooks outbox"}
WORK |= {"mail recipients"}
ANSWERS = {"heartbeats", "uses of tokens"}
BOTH = {"record levels", "feed", "versions"}


@pytest.mark.parametrize(("duty", "tasks"), [("serve", ANSWERS | BOTH), ("work", WORK | BOTH)])
async def test_each_duty_has_its_own_tasks(world: World, duty: str, tasks: set[str]) -> None:
    settings = world.settings.model_copy(update={"http_port": free_port()})
    service = _Service(settings)

    async with gateway_on(world.store, service, settings, COMMANDS[duty]) as port:
        await until(lambda: not service.failing(), seconds=90, what="the process to be ready")
        found = {task.get_name() for task in service.tasks}
        await service.stop()

    assert found == tasks
    assert {task.get_name() for task in world.service.tasks} == ANSWERS | WORK | BOTH
    assert port == (settings.http_port if duty == "serve" else 0)


async def test_a_worker_listens_nowhere(world: World) -> None:
    settings = world.settings.model_copy(update={"http_port": free_port()})
    service = _Service(settings)

    async with gateway_on(world.store, service, settings, COMMANDS["work"]):
        with pytest.raises(aiohttp.ClientConnectionError):
            async with aiohttp.ClientSession() as http, asyncio.timeout(90):
                await http.get(f"http://127.0.0.1:{settings.http_port}/v1/users/me")
        await service.stop()
