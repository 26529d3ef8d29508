"""The lab of these tests, and the machine on which the engines run."""

import os
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from engine_machine import EngineMachine, engine_machine, requests_by_route


@pytest.fixture(scope="session")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """As the lab of the other tests. Its workers stay a little, because an engine's jobs come one after the other."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    async with stack(tmp_path_factory.mktemp("lab"), LabOptions(ScalingPolicy(idle_seconds=15.0))) as running:
        yield running


@pytest.fixture
async def machine(lab: Stack, ada: User) -> AsyncIterator[EngineMachine]:
    """A machine of ada, without Slurm. Prints what the engine asked for: `make test-engines` shows it."""
    async with ada.api_token("engines") as token:
        made = await engine_machine(lab, ada.profile, {"CLUSTERRA_TOKEN": token, "CLUSTERRA_CLUSTER": ada.cluster})
        before = await requests_by_route(lab)
        yield made
        after = await requests_by_route(lab)
        print(f"{made.report()}requests: {dict(after - before)}")
