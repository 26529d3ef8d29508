"""One whole lab for all tests across services: real NATS, DynamoDB, OIDC and Slurm, and the five services."""

import os
from collections.abc import AsyncIterator

import pytest
from clusterra_lab.observer import Observer, observe
from clusterra_lab.process import until
from clusterra_lab.progress import silent
from clusterra_lab.stack import Stack, stack
from clusterra_lab.user import User, logged_in


@pytest.fixture(scope="session")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    if os.geteuid() != 0:
        pytest.skip("the lab's Slurm runs jobs as several users: it needs root")
    async with stack(tmp_path_factory.mktemp("lab"), silent, idle_seconds=2.0) as running:
        yield running


@pytest.fixture
async def observer(lab: Stack) -> AsyncIterator[Observer]:
    async with observe(lab.bus, lab.cluster) as observer:
        await until(lambda: observer.workers is not None, seconds=20, what="a heartbeat of the edge-agent")
        yield observer


@pytest.fixture
async def ada(lab: Stack) -> AsyncIterator[User]:
    async with logged_in(
        lab.gateway_url, lab.cluster.cluster, lambda url: lab.log_in(url, "ada@acme.example")
    ) as user:
        yield user
