"""What the tests across services share: the lab, and the Compose project."""

import os
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer, observe
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from composition import Composition, composition
from submit_replicas import Replicas, Second, all_replicas, second_replicas


@pytest.fixture(scope="session")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """The lab: real NATS, DynamoDB, OIDC and Slurm, and the five services as processes."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    options = LabOptions(ScalingPolicy(idle_seconds=2.0), environment={"CLUSTERRA_COST_NOTE_SECONDS": "3"})
    async with stack(tmp_path_factory.mktemp("lab"), options) as running:
        yield running


@pytest.fixture
async def observer(lab: Stack) -> AsyncIterator[Observer]:
    async with observe(lab.bus, lab.cluster) as observer:
        await until(lambda: observer.workers is not None, seconds=120, what="a heartbeat of the edge-agent")
        yield observer


@pytest.fixture
async def ada(lab: Stack) -> AsyncIterator[User]:
    async with lab.user("ada@acme.example") as user:
        yield user


@pytest.fixture(scope="module")
async def second(lab: Stack) -> AsyncIterator[Second]:
    async with second_replicas(lab) as running:
        yield running


@pytest.fixture
async def replicas(lab: Stack, ada: User, second: Second) -> AsyncIterator[Replicas]:
    async with all_replicas(lab, ada, second) as running:
        yield running


@pytest.fixture(scope="session")
async def composed() -> AsyncIterator[Composition]:
    """The whole product in containers, as compose.yaml says."""
    if not await engine_answers():
        pytest.skip("no container engine answers")
    async with composition() as running:
        yield running
