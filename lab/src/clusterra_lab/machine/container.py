"""Runs servers in containers, on machines where their programs cannot run as processes."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import docker  # type: ignore[import-untyped]
from docker.constants import DEFAULT_UNIX_SOCKET  # type: ignore[import-untyped]
from docker.errors import DockerException  # type: ignore[import-untyped]
from docker.models.containers import Container  # type: ignore[import-untyped]
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient, get_docker_host

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import mark

# The reaper of testcontainers needs another image and a privileged container. `lab down` finds containers by label.
testcontainers_config.ryuk_disabled = True


class NoContainerEngine(LabProblem):
    """A container is needed and no container engine answers."""


@dataclass(frozen=True)
class Image:
    """A container to run."""

    name: str
    ports: Mapping[int, int] = field(default_factory=dict)
    """Port in the container -> port of 127.0.0.1 where it is published."""
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[Path, str] = field(default_factory=dict)
    """Folder of this machine -> folder in the container, writable."""
    scratch: Sequence[str] = ()
    """Folders of the container that are empty, in memory and writable by everybody."""
    command: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    """Further arguments of docker-py's `containers.run`."""


class Server:
    """A running container, which keeps its published ports over `kill` and `restart`."""

    def __init__(self, container: Container) -> None:
        self._container = container

    async def pid(self) -> int:
        """The pid of the container's first process on the engine's machine."""
        await asyncio.to_thread(self._container.reload)
        return int(self._container.attrs["State"]["Pid"])

    async def kill(self) -> None:
        """Send SIGKILL to the first process and wait for the end of the container."""
        await asyncio.to_thread(self._container.kill)
        await asyncio.to_thread(self._container.wait)

    async def restart(self) -> None:
        """Stop the container if it runs, and start it again."""
        await asyncio.to_thread(self._container.restart, timeout=5)


@contextmanager
def engine() -> Iterator[docker.DockerClient]:
    """Connect to the container engine; calls of the client block. Raises NoContainerEngine."""
    try:
        _check_socket()
        client = DockerClient().client
    except (OSError, DockerException) as error:
        raise NoContainerEngine(
            "no container engine answers: start one, name one in DOCKER_HOST, or provide the dependency that would run "
            "in a container through its environment variable (see README.md)"
        ) from error
    try:
        yield client
    finally:
        client.close()


def _check_socket() -> None:
    """Try to connect first, because a client that cannot connect leaves its socket open. Raises OSError."""
    host = get_docker_host() or DEFAULT_UNIX_SOCKET.removeprefix("http+")
    if host.startswith("unix:"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect("/" + host.removeprefix("unix:").lstrip("/"))


async def engine_answers() -> bool:
    """Whether a container engine answers."""

    def ping() -> bool:
        try:
            with engine() as client:
                return bool(client.ping())
        except NoContainerEngine:
            return False

    return await asyncio.to_thread(ping)


@asynccontextmanager
async def container(image: Image) -> AsyncIterator[Server]:
    """Run a container until the block ends. Raises NoContainerEngine."""
    with engine():
        described = DockerContainer(image.name)
    described.with_envs(**image.environment)
    described.with_kwargs(labels=dict(mark()), **image.options)
    if image.command:
        described.with_command(list(image.command))
    for folder, target in image.volumes.items():
        described.with_volume_mapping(folder, target, "rw")
    described.tmpfs.update(dict.fromkeys(image.scratch, "mode=1777,exec"))
    for inside, outside in image.ports.items():
        # The type allows only a port, but the value is passed to the engine unchanged.
        described.ports[f"{inside}/tcp"] = ("127.0.0.1", outside)  # type: ignore[assignment]
    try:
        await asyncio.to_thread(described.start)
        yield Server(described.get_wrapped_container())
    finally:
        await asyncio.to_thread(described.stop)


async def remove_marked(name: str, value: str) -> list[str]:
    """Remove all containers with the label `name`=`value` (see `process.mark`), and return their descriptions."""
    if not await engine_answers():
        return []

    def remove() -> list[str]:
        with engine() as client:
            found = client.containers.list(all=True, filters={"label": f"{name}={value}"})
            for container in found:
                container.remove(force=True, v=True)
            return [f"container {container.name} ({container.attrs['Config']['Image']})" for container in found]

    return await asyncio.to_thread(remove)
