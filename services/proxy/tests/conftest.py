"""One Slurm for all tests that need one, with one proxy on it."""

import os
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.identity import SlurmUser
from proxy_world import ProxyWorld, proxy_world
from slurm_world import SlurmWorld, slurm_world


@pytest.fixture(scope="session")
async def slurm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SlurmWorld]:
    if os.geteuid() != 0:
        pytest.skip("needs root: Slurm runs jobs as several users")
    async with slurm_world(tmp_path_factory.mktemp("slurm")) as world:
        yield world


@pytest.fixture(scope="session")
async def workers(slurm: SlurmWorld) -> AsyncIterator[None]:
    async with (
        slurm.worker("w1", cpus=8, memory_mib=16000, features="general,general-xlarge"),
        slurm.worker("w2", features="memory,memory-small"),
    ):
        yield


@pytest.fixture(scope="session")
async def proxy(
    slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ProxyWorld]:
    async with proxy_world(slurm, tmp_path_factory.mktemp("proxy")) as world:
        yield world


@pytest.fixture
def alice(slurm: SlurmWorld) -> SlurmUser:
    """A new user."""
    return slurm.new_user()


@pytest.fixture
def bob(slurm: SlurmWorld) -> SlurmUser:
    """Another new user."""
    return slurm.new_user()
