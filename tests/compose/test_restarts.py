"""The demo's checks hold while each container in turn is killed and started again."""

import os

import pytest
from composition import Composition, running_demo

pytestmark = [
    pytest.mark.containers,
    pytest.mark.skipif("COMPOSE_FULL" not in os.environ, reason="takes 15 minutes: `make test-compose` runs it"),
]

EVERY = (
    *("nats", "dynamodb", "oidc", "mariadb", "slurmdbd", "slurmctld", "slurmrestd"),
    *("gateway", "web", "proxy", "scaler", "events", "edge", "sackd", "login"),
)
"""All services that keep running."""


@pytest.mark.parametrize("service", EVERY)
async def test_the_demo_passes_while_a_container_is_killed_and_started_again(
    composed: Composition, service: str
) -> None:
    killed = await composed.containers(service)

    async with running_demo(composed):
        await composed.docker("kill", *killed)
        await composed.docker("start", *killed)

    for container in killed:
        await composed.healthy(container)
