"""Everything on this machine: the real dependencies and the five services on them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ScalingPolicy
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.client import Client

from clusterra_lab.machine.concurrency import at_once
from clusterra_lab.machine.ports import kept_port
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.machine.secret_file import write_secret
from clusterra_lab.parts.aws import Aws, aws_emulator
from clusterra_lab.parts.curl import cookie_file
from clusterra_lab.parts.nats import NatsServer, nats_server
from clusterra_lab.parts.oidc import Oidc, oidc_provider
from clusterra_lab.parts.tools import tools_python
from clusterra_lab.parts.user import User, logged_in
from clusterra_lab.slurm.control_plane import OwnedSlurmCluster, slurm_cluster
from clusterra_lab.slurm.provider import first_possible
from clusterra_lab.stack.fleet import RunningService, fleet, run_setup
from clusterra_lab.stack.home import Home, Summary
from clusterra_lab.stack.leftovers import end_processes
from clusterra_lab.stack.services import CATALOGUE, CLUSTER, NATS_USERS, PEOPLE, POLICY, Parts, services, setup
from clusterra_lab.stack.substrate import Substrate, SubstrateName, edge_substrate
from clusterra_lab.stack.up import opened

COOKIES = "cookies.txt"
ADMITS_SECONDS = 60.0
"""Within this the proxy has made its placeholders."""


@dataclass(frozen=True)
class Stack:
    """A running lab. Each service may be killed, stopped and started again by itself."""

    home: Home
    parts: Parts
    nats: NatsServer
    aws: Aws
    oidc: Oidc
    slurm: OwnedSlurmCluster
    substrate: Substrate
    services: dict[str, RunningService]
    bus: Client
    """May publish and subscribe everything."""
    gateway_url: str
    cluster: ClusterRef = CLUSTER

    async def restart(self, name: str) -> None:
        """Stop a service if it runs, start it and wait until it is ready."""
        await self.services[name].restart()

    async def set_policy(self, policy: ScalingPolicy) -> None:
        """Change how the cluster scales, as an operator does: by provisioning it again. Raises SetupFailed."""
        await run_setup(setup(self.parts, policy), self.home.logs)

    async def log_in(self, authorization_url: str, email: str) -> str:
        """A browser's way through the provider's form; the callback URL at the gateway. Raises LoginRefused."""
        return await self.oidc.log_in(authorization_url, email)

    def user(self, email: str) -> AbstractAsyncContextManager[User]:
        """One of the people, logged in at the gateway. Raises LoginRefused, UnexpectedAnswer."""
        return logged_in(self.gateway_url, self.cluster.cluster, lambda url: self.log_in(url, email))

    @property
    def summary(self) -> Summary:
        """What its users want to know."""
        cookies = self.home.directory / COOKIES
        return Summary(
            cookies=cookies if cookies.exists() else None,
            addresses={
                "gateway": self.gateway_url,
                "NATS": self.nats.url,
                "AWS": self.aws.endpoint_url,
                "OIDC issuer": self.oidc.issuer,
                "slurmrestd": self.slurm.slurmrestd_url,
            },
            health={name: service.health_url for name, service in self.services.items()},
            logins={email: login.password_file for email, login in self.oidc.logins.items()},
        )

    async def ready_made_login(self, email: str = PEOPLE[0].email) -> None:
        """Log a person in at the gateway and keep the session for curl. Raises LoginRefused, UnexpectedAnswer."""
        async with self.user(email) as user:
            write_secret(self.home.directory / COOKIES, cookie_file(user.session.cookie_jar, "127.0.0.1"))


@asynccontextmanager
async def stack(
    directory: Path,
    *,
    policy: ScalingPolicy = POLICY,
    substrate: SubstrateName = "process",
    settings: Sequence[str] = (),
    catalogue: Path = CATALOGUE,
    fresh: bool = False,
    progress: Progress = silent,
) -> AsyncIterator[Stack]:
    """Start everything, in a folder of its own; nothing of it is left running when the block ends.

    `substrate` says what workers are: processes, or pods of a real node of Kubernetes. `settings` are more lines of
    slurm.conf, `catalogue` is a file of other shapes than the service's own.

    It goes on with the state of the folder's last lab, unless it shall be `fresh`. Raises LabProblem.
    """
    async with opened(directory) as home, AsyncExitStack() as running:
        if fresh:
            home.forget()
        all_started = running.enter_context(home.using_state())
        gateway_url = f"http://127.0.0.1:{kept_port(home.state / 'gateway-port')}"

        async def start_slurm() -> tuple[Substrate, OwnedSlurmCluster]:
            edge = await running.enter_async_context(edge_substrate(substrate, home.directory / "kubernetes", progress))
            slurm = await running.enter_async_context(
                slurm_cluster(
                    home.state / "slurm",
                    max_nodes=policy.max_workers,
                    address=edge.address,
                    one_host=edge.one_host,
                    settings=settings,
                    progress=progress,
                )
            )
            return edge, slurm

        async with at_once() as starting:
            nats = starting.create_task(
                running.enter_async_context(nats_server(home.state / "nats", users=NATS_USERS, progress=progress))
            )
            aws = starting.create_task(running.enter_async_context(aws_emulator(home.state / "aws", progress=progress)))
            oidc = starting.create_task(
                running.enter_async_context(
                    oidc_provider(
                        home.state / "oidc",
                        redirect_uris=[f"{gateway_url}/v1/auth/callback"],
                        people=PEOPLE,
                        progress=progress,
                    )
                )
            )
            slurm_started = starting.create_task(start_slurm())
        edge, slurm = slurm_started.result()
        told = await edge.deploy(slurm)
        parts = Parts(home.state, nats.result(), aws.result(), oidc.result(), slurm, told, gateway_url, catalogue)
        # Workers outlive their agent, but must be gone before Slurm goes.
        running.push_async_callback(end_processes, home.directory, only_strays=True)
        client = await bus.connect(parts.nats.settings("lab"), "lab")
        running.push_async_callback(bus.close, client)
        await topology.apply(client)
        async with at_once() as starting:
            starting.create_task(run_setup(setup(parts, policy), home.logs, progress))
            started = starting.create_task(running.enter_async_context(fleet(services(parts), home.logs, progress)))
        await until(slurm.admits, seconds=ADMITS_SECONDS, what="Slurm to accept jobs", every=0.1)
        all_started()
        yield Stack(home, parts, parts.nats, parts.aws, parts.oidc, slurm, edge, started.result(), client, gateway_url)


async def prepared(progress: Progress = silent) -> None:
    """Download and build what a lab needs, once, into the cache."""
    await tools_python(progress)
    await first_possible(progress)
