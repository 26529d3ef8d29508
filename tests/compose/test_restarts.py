"""The demo's checks hold while each container in turn is killed; test_compose.py kills one of two of each service."""

import os

import pytest
from composition import Composition, kill_and_start, running_demo

pytestmark = [
    pytest.mark.containers,
    pytest.mark.skipif("COMPOSE_FULL" not in os.environ, reason="takes 15 minutes: `make test-compose` runs it"),
]

EVERY = (
    *("nats", "dynamodb", "s3", "oidc", "mariadb", "slurmdbd", "slurmctld", "slurmrestd"),
    *("gateway", "web", "proxy", "scaler", "events", "edge", "sackd", "login"),
)
"""All services that keep running."""


@pytest.mark.parametrize("service", EVERY)
async def test_the_demo_passes_while_a_container_is_killed_and_started_again(
    composed: Composition, service: str
) -> None:
    async with running_demo(composed):
        killed = await kill_and_start(composed, service)

    for container in killed:
        await composed.healthy(container)
