"""Builds the images once, and starts the servers that the services need."""

import os
import shutil
from collections.abc import AsyncIterator

import pytest
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.process import until
from container_engine import container, docker, network
from service_containers import ROOT, VERSION, Surroundings, image


@pytest.fixture(scope="session")
async def images() -> None:
    if not await engine_answers() or shutil.which("docker") is None:
        pytest.skip("no container engine answers, or there is no command 'docker' for it")
    environment = os.environ | {"VERSION": VERSION, "REVISION": "0123abc", "SOURCE_DATE_EPOCH": "1700000000"}
    built = await docker(
        *("buildx", "bake", "--file=docker-bake.hcl", "--progress=plain", "services"),
        environment=environment,
        directory=ROOT,
    )
    assert built.returncode == 0, built.stdout[-4000:]


@pytest.fixture(scope="session")
async def surroundings(images: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Surroundings]:
    """NATS with its topology and DynamoDB with its tables, both made by `clusterra-admin` in its container."""
    key = tmp_path_factory.mktemp("gateway") / "session-key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o444)
    async with network() as name:
        servers = Surroundings(name, key)
        attached = f"--network={name}"
        async with (
            container("nats:2.14-alpine", attached, "--network-alias=nats", command=["--jetstream"]),
            container("amazon/dynamodb-local:latest", attached, "--network-alias=dynamodb"),
        ):
            for group in ("topology", "tables"):

                async def applied(group: str = group) -> bool:
                    ran = await docker("run", "--rm", *servers.options("admin"), image("admin"), group, "apply")
                    return ran.returncode == 0

                await until(applied, seconds=300, what=f"clusterra-admin {group} apply")
            yield servers
