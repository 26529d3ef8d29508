"""A server in a container: the last choice of each provider, for machines where its program cannot run."""

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

# Its reaper is one more image to pull, and a privileged container; `lab down` finds ours by their mark.
testcontainers_config.ryuk_disabled = True


class NoContainerEngine(LabProblem):
    """A container was needed and no engine answers."""


@dataclass(frozen=True)
class Image:
    """What to run: each port is published on 127.0.0.1 under the number given for it."""

    name: str
    ports: Mapping[int, int] = field(default_factory=dict)
    """Port in the container -> port of 127.0.0.1."""
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[Path, str] = field(default_factory=dict)
    """Folder of this machine -> folder in the container, writable."""
    scratch: Sequence[str] = ()
    """Folders in the container that are empty, in memory and open to all."""
    command: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    """Further arguments of docker-py's `containers.run`."""


class Server:
    """A running container; its published ports stay the same over `kill` and `restart`."""

    def __init__(self, container: Container) -> None:
        self._container = container

    async def pid(self) -> int:
        """Of its first process, as the engine's machine counts."""
        await asyncio.to_thread(self._container.reload)
        return int(self._container.attrs["State"]["Pid"])

    async def kill(self) -> None:
        """SIGKILL its first process and wait for the end."""
        await asyncio.to_thread(self._container.kill)
        await asyncio.to_thread(self._container.wait)

    async def restart(self) -> None:
        """Start it again, after stopping it when it runs."""
        await asyncio.to_thread(self._container.restart, timeout=5)


@contextmanager
def engine() -> Iterator[docker.DockerClient]:
    """The container engine; its client's calls block. Raises NoContainerEngine."""
    try:
        _look_at_socket()
        client = DockerClient().client
    except (OSError, DockerException) as error:
        raise NoContainerEngine(
            "no container engine answers: start one, name it with DOCKER_HOST, "
            "or give what would run in a container in the environment"
        ) from error
    try:
        yield client
    finally:
        client.close()


def _look_at_socket() -> None:
    """A client that cannot connect would leave its socket open. Raises OSError."""
    host = get_docker_host() or DEFAULT_UNIX_SOCKET.removeprefix("http+")
    if host.startswith("unix:"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect("/" + host.removeprefix("unix:").lstrip("/"))


async def engine_answers() -> bool:
    """Whether containers can run here."""

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
        # Typed as the port alone, handed to the engine as it is.
        described.ports[f"{inside}/tcp"] = ("127.0.0.1", outside)  # type: ignore[assignment]
    try:
        await asyncio.to_thread(described.start)
        yield Server(described.get_wrapped_container())
    finally:
        await asyncio.to_thread(described.stop)


async def remove_marked(name: str, value: str) -> list[str]:
    """Remove all containers that were started under a mark (see `process.mark`), running or not; what they were."""
    if not await engine_answers():
        return []

    def remove() -> list[str]:
        with engine() as client:
            found = client.containers.list(all=True, filters={"label": f"{name}={value}"})
            for container in found:
                container.remove(force=True, v=True)
            return [f"container {container.name} ({container.attrs['Config']['Image']})" for container in found]

    return await asyncio.to_thread(remove)
