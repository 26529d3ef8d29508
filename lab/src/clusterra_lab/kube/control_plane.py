"""A Kubernetes control plane on loopback, as processes of this machine.

It has no node, so pods stay pending until `fake_nodes` or `node` adds nodes. All its processes end with the block, or
with the process that runs the block.
"""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from clusterra_lab.kube.access import KubectlFailed, Kubernetes
from clusterra_lab.kube.certificates import Authority
from clusterra_lab.kube.components import HOST, LOOPBACK, Components, Ports, Site
from clusterra_lab.kube.programs.binaries import CONTROL_PLANE, ensure_binaries
from clusterra_lab.machine.ports import reserved_ports
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.machine.progress import Progress, silent

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0


class Component:
    """A process of the control plane, which can be started again."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def again(self) -> None:
        """Start the same command again; the process must have ended."""
        self.process = await self.process.again()

    async def answers(self, url: str, trust: ssl.SSLContext) -> None:
        """Wait until a GET of `url` returns 200. Raises ProcessDied, TimeoutError."""
        async with aiohttp.ClientSession() as http:

            async def ok() -> bool:
                try:
                    async with http.get(url, ssl=trust) as answer:
                        return answer.status == 200
                except aiohttp.ClientConnectionError:
                    return False

            await until(ok, seconds=_START_SECONDS, what=self.process.name, process=self.process)

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after ten seconds."""
        await self.process.stop(_STOP_SECONDS)


@dataclass(frozen=True)
class ControlPlane(Kubernetes):
    """A Kubernetes whose API server can be killed, and to which nodes can be added."""

    authority: Authority
    """The authority that signs the client certificates which the API server accepts."""
    _api_server: Component
    _controllers: Component

    async def kill_api_server(self) -> None:
        """Send SIGKILL to the API server and wait for its end."""
        self._api_server.process.kill()
        await self._api_server.process.wait()

    async def start_api_server(self) -> None:
        """Start the ended API server on the same port and wait for /readyz. Raises ProcessDied, TimeoutError."""
        await self._api_server.again()
        await self._api_server.answers(f"{self.url}/readyz", _trust(self.authority))

    async def restart_controllers(self) -> None:
        """Kill the controllers and start them again: after an outage they may wait a minute before they look again."""
        self._controllers.process.kill()
        await self._controllers.process.wait()
        await self._controllers.again()


@asynccontextmanager
async def control_plane(
    directory: Path, *, site: Site = LOOPBACK, progress: Progress = silent
) -> AsyncIterator[ControlPlane]:
    """Run etcd, kube-apiserver with RBAC, kube-controller-manager and kube-scheduler until the block ends.

    Pods reach the API server only if `site` has an address other than 127.0.0.1; see `NodeNumber.site`.
    The cluster is new and empty and takes some seconds to start. `directory` gets its certificates, state and logs.
    Raises BinariesNotBuilt, NoPortsLeft, ProcessDied, TimeoutError.
    """
    directory = directory.resolve()
    programs = await ensure_binaries(progress, names=CONTROL_PLANE)
    progress("starting the Kubernetes control plane")
    async with AsyncExitStack() as stack:
        ports = Ports(*stack.enter_context(reserved_ports(4)))
        components = Components(programs, directory, ports, site)
        authority = components.prepare()

        async def run(name: str, argv: Sequence[str]) -> Component:
            component = Component(await start(name, argv, log=directory / f"{name}.log", cwd=directory))
            stack.push_async_callback(component.stop)
            return component

        await run("etcd", components.etcd())
        api_server = await run("kube-apiserver", components.api_server())
        await api_server.answers(f"{components.url}/readyz", _trust(authority))
        manager = await run("kube-controller-manager", components.controller_manager())
        plane = ControlPlane(components.url, components.kubeconfig, directory, programs, authority, api_server, manager)
        scheduler = await run("kube-scheduler", components.scheduler())
        await scheduler.answers(f"https://{HOST}:{ports.scheduler}/readyz", _trust(authority))
        await until(
            lambda: _has_default_account(plane),
            seconds=_START_SECONDS,
            what="the default ServiceAccount",
            process=manager.process,
        )
        yield plane


async def _has_default_account(plane: ControlPlane) -> bool:
    """Whether the default ServiceAccount exists: pods need it, and it is created last in a new cluster."""
    try:
        await plane.kubectl("get", "serviceaccount", "default", "--namespace=default")
    except KubectlFailed:
        return False
    return True


def _trust(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate)
