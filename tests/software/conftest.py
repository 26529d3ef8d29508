"""The lab of these tests: its workers have MPI, Lmod, Apptainer and programs of templates besides Slurm."""

import os
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.stack.stack import LabOptions, Stack, stack


@pytest.fixture(scope="session")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """As the lab of the other tests, with more programs on the workers."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    options = LabOptions(ScalingPolicy(idle_seconds=5.0), software=True)
    async with stack(tmp_path_factory.mktemp("lab"), options) as running:
        yield running
