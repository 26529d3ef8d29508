"""The demo's checks hold while each container in turn is killed and started again."""

import os

import pytest
from clusterra_lab.machine.process import until
from composition import Composition, running_demo

pytestmark = [
    pytest.mark.containers,
    pytest.mark.skipif("COMPOSE_FULL" not in os.environ, reason="takes 15 minutes: `make test-compose` runs it"),
]

EVERY = (
    *("nats", "dynamodb", "s3", "oidc", "mariadb", "slurmdbd", "slurmctld", "slurmrestd"),
    *("gateway", "web", "proxy", "scaler", "events", "edge", "sackd", "login"),
)
"""All services that keep running."""


async def saved_by_slurmctld(composed: Composition) -> None:
    """Wait until slurmctld has written the jobs that it has confirmed, which it does within 5 s."""
    state = ("sh", "-c", "stat --format=%Y /var/spool/slurmctld/job_state; date +%s")
    began = int((await composed.exec("slurmctld", *state)).split()[1])

    async def saved() -> bool:
        return int((await composed.exec("slurmctld", *state)).split()[0]) > began

    await until(saved, seconds=30, what="slurmctld to save its jobs", every=0.1)


@pytest.mark.parametrize("service", EVERY)
async def test_the_demo_passes_while_a_container_is_killed_and_started_again(
    composed: Composition, service: str
) -> None:
    killed = await composed.containers(service)

    async with running_demo(composed):
        if service == "slurmctld":
            await saved_by_slurmctld(composed)
        await composed.docker("kill", *killed)
        await composed.docker("start", *killed)

    for container in killed:
        await composed.healthy(container)
