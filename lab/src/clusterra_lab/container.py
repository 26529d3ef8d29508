"""A server in a container: the last choice of each provider, for machines where its program cannot run."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from docker.errors import DockerException  # type: ignore[import-untyped]
from docker.models.containers import Container  # type: ignore[import-untyped]
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from clusterra_lab.problem import LabProblem


class NoContainerEngine(LabProblem):
    """A container was needed and no engine answers."""


@dataclass(frozen=True)
class Image:
    """What to run: each port is published on 127.0.0.1 under the number given for it."""

    name: str
    ports: Mapping[int, int]
    """Port in the container -> port of 127.0.0.1."""
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[Path, str] = field(default_factory=dict)
    """Folder of this machine -> folder in the container, writable."""
    command: Sequence[str] = ()


class Server:
    """A running container; its published ports stay the same over `kill` and `restart`."""

    def __init__(self, container: Container) -> None:
        self._container = container

    async def kill(self) -> None:
        """SIGKILL its first process and wait for the end."""
        await asyncio.to_thread(self._container.kill)
        await asyncio.to_thread(self._container.wait)

    async def restart(self) -> None:
        """Start it again, after stopping it when it runs."""
        await asyncio.to_thread(self._container.restart, timeout=5)


async def engine_answers() -> bool:
    """Whether containers can run here."""
    try:
        await asyncio.to_thread(lambda: DockerClient().client.ping())
    except DockerException:
        return False
    return True


@asynccontextmanager
async def container(image: Image) -> AsyncIterator[Server]:
    """Run a container until the block ends. Raises NoContainerEngine."""
    try:
        described = DockerContainer(image.name)
    except DockerException as error:
        raise NoContainerEngine(
            f"{image.name} would run in a container, but no container engine answers. "
            "Start one, name it with DOCKER_HOST, or give the address of a running server in the environment."
        ) from error
    described.with_envs(**image.environment)
    if image.command:
        described.with_command(list(image.command))
    for folder, target in image.volumes.items():
        described.with_volume_mapping(folder, target, "rw")
    for inside, outside in image.ports.items():
        # Typed as the port alone, handed to the engine as it is.
        described.ports[f"{inside}/tcp"] = ("127.0.0.1", outside)  # type: ignore[assignment]
    try:
        await asyncio.to_thread(described.start)
        yield Server(described.get_wrapped_container())
    finally:
        await asyncio.to_thread(described.stop)
