"""Runs a whole lab on this machine: the real dependencies and the five services."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ScalingPolicy
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.client import Client

from clusterra_lab.machine.concurrency import unwrapped_task_group
from clusterra_lab.machine.ports import kept_port
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.machine.secret_file import write_secret
from clusterra_lab.parts.aws import Aws, aws_emulator
from clusterra_lab.parts.bucket import made_bucket
from clusterra_lab.parts.curl import cookie_file
from clusterra_lab.parts.nats import NatsServer
from clusterra_lab.parts.oidc import Oidc, oidc_provider
from clusterra_lab.parts.tools import tools_python
from clusterra_lab.parts.user import User, logged_in
from clusterra_lab.slurm.config import ClusterOptions
from clusterra_lab.slurm.control_plane import OwnedSlurmCluster, slurm_cluster
from clusterra_lab.slurm.provider import first_available, with_software
from clusterra_lab.slurm.registration import registered_at
from clusterra_lab.stack.fleet import RunningService, fleet, run_setup
from clusterra_lab.stack.home import Home, Summary
from clusterra_lab.stack.leftovers import end_processes
from clusterra_lab.stack.nats_login import NatsLogin, lab_nats
from clusterra_lab.stack.services import (
    CATALOGUE,
    CLUSTER,
    PEOPLE,
    POLICY,
    Parts,
    console_built,
    provisioning,
    services,
    tables,
)
from clusterra_lab.stack.substrate import Substrate, SubstrateName, edge_substrate
from clusterra_lab.stack.up import open_home

COOKIES = "cookies.txt"
ADMITS_SECONDS = 60.0
"""Time in which the proxy must have created its placeholders, so that Slurm accepts jobs."""


@dataclass(frozen=True)
class Stack:
    """A running lab. Each service can be killed, stopped and started again separately."""

    home: Home
    parts: Parts
    nats: NatsServer
    aws: Aws
    oidc: Oidc
    slurm: OwnedSlurmCluster
    substrate: Substrate
    services: dict[str, RunningService]
    bus: Client
    """A client that may publish and subscribe to everything."""
    gateway_url: str
    cluster: ClusterRef = CLUSTER

    async def restart(self, name: str) -> None:
        """Stop a service if it is running, start it, and wait until it is ready."""
        await self.services[name].restart()

    async def set_policy(self, policy: ScalingPolicy) -> None:
        """Change the cluster's scaling policy as an operator does, by provisioning it again. Raises SetupFailed."""
        await run_setup([provisioning(self.parts, policy)], self.home.logs)

    async def log_in(self, authorization_url: str, email: str) -> str:
        """Log in through the provider's form like a browser, and return the callback URL. Raises LoginRejected."""
        return await self.oidc.log_in(authorization_url, email)

    def user(self, email: str) -> AbstractAsyncContextManager[User]:
        """Log a person in at the gateway until the block ends. Raises LoginRejected, UnexpectedAnswerError."""
        return logged_in(self.gateway_url, self.cluster.cluster, lambda url: self.log_in(url, email))

    def registered_at(self, node: str) -> datetime | None:
        """Time of a node's first registration with slurmctld, from its log; None when the log does not have it."""
        return registered_at(self.slurm, node)

    @property
    def summary(self) -> Summary:
        """Its addresses and logins."""
        cookies = self.home.directory / COOKIES
        return Summary(
            cookies=cookies if cookies.exists() else None,
            addresses={
                "gateway": self.gateway_url,
                **({"console": f"{self.gateway_url}/"} if console_built() else {}),
                "NATS": self.nats.url,
                "AWS": self.aws.endpoint_url,
                "OIDC issuer": self.oidc.issuer,
                "slurmrestd": self.slurm.slurmrestd_url,
            },
            health={name: service.health_url for name, service in self.services.items()},
            logins={email: login.password_file for email, login in self.oidc.logins.items()},
        )

    async def save_login(self, email: str = PEOPLE[0].email) -> None:
        """Log a person in and save the session's cookies for curl. Raises LoginRejected, UnexpectedAnswerError."""
        async with self.user(email) as user:
            write_secret(self.home.directory / COOKIES, cookie_file(user.session.cookie_jar, "127.0.0.1"))


@dataclass(frozen=True)
class LabOptions:
    """What the creator of a lab chooses."""

    policy: ScalingPolicy = POLICY
    substrate: SubstrateName = "process"
    """Whether workers are processes, or pods on a real Kubernetes node."""
    settings: Sequence[str] = ()
    """Additional lines of slurm.conf."""
    catalogue: Path = CATALOGUE
    """The file with the shapes."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional variables of all services, such as `OTEL_EXPORTER_OTLP_ENDPOINT`."""
    nats_login: NatsLogin = "password"
    """How services log in at NATS: by passwords, or by credentials in operator mode, as in production."""
    accounting_enforced: bool = False
    """Whether Slurm enforces the limits of associations and QOS. Then a user without one can submit nothing."""
    fresh: bool = False
    """Whether the lab starts with an empty state, instead of that of the folder's last lab."""
    software: bool = False
    """Whether workers have what people's jobs often use: MPI, Lmod, Apptainer, and programs of templates."""


DEFAULT_OPTIONS = LabOptions()


@asynccontextmanager
async def stack(
    directory: Path, options: LabOptions = DEFAULT_OPTIONS, *, progress: Progress = silent
) -> AsyncIterator[Stack]:
    """Run everything in `directory` until the block ends; no process of it is left then.

    Raises LabProblem, TimeoutError.
    """
    async with open_home(directory) as home, AsyncExitStack() as running:
        if options.fresh:
            home.discard()
        all_started = running.enter_context(home.using_state())
        gateway_url = f"http://127.0.0.1:{kept_port(home.state / 'gateway-port')}"
        # Another host than the gateway's, as in production: cookies know no ports.
        sessions_url = f"http://localhost:{kept_port(home.state / 'sessions-port')}"

        async def start_slurm() -> tuple[Substrate, OwnedSlurmCluster]:
            edge = await running.enter_async_context(
                edge_substrate(options.substrate, home.directory / "kubernetes", progress)
            )
            enforced = ("AccountingStorageEnforce=limits,qos",) if options.accounting_enforced else ()
            of_slurm = ClusterOptions(
                address=edge.address,
                one_host=edge.one_host,
                max_nodes=options.policy.max_workers,
                settings=(*options.settings, *enforced),
                private_tmp=edge.one_host,
            )
            provider = with_software if options.software else first_available
            slurm = await running.enter_async_context(
                slurm_cluster(home.state / "slurm", of_slurm, provider=provider, progress=progress)
            )
            return edge, slurm

        async with unwrapped_task_group() as starting:
            nats = starting.create_task(
                running.enter_async_context(lab_nats(home.state / "nats", options.nats_login, progress))
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
        parts = Parts(
            directory=home.state,
            nats=nats.result(),
            aws=aws.result(),
            oidc=oidc.result(),
            slurm=slurm,
            edge=await edge.deploy(slurm),
            gateway_url=gateway_url,
            sessions_url=sessions_url,
            catalogue=options.catalogue,
            accounting_enforced=options.accounting_enforced,
        )
        # Workers outlive their agent, but must end before Slurm does.
        running.push_async_callback(end_processes, home.directory, only_strays=True)
        client = await bus.connect(parts.nats.settings("lab"), "lab")
        running.push_async_callback(bus.close, client)
        await topology.apply(client)
        await made_bucket(parts.aws)
        async with unwrapped_task_group() as starting:
            commands = [tables(parts), provisioning(parts, options.policy)]
            starting.create_task(run_setup(commands, home.logs, progress))
            started = starting.create_task(
                running.enter_async_context(fleet(services(parts, options.environment), home.logs, progress))
            )
        await until(slurm.admits, seconds=ADMITS_SECONDS, what="Slurm to accept jobs", every=0.1)
        all_started()
        yield Stack(home, parts, parts.nats, parts.aws, parts.oidc, slurm, edge, started.result(), client, gateway_url)


async def prepared(progress: Progress = silent, *, software: bool = False) -> None:
    """Download and build the dependencies of a lab into the cache, unless they are there.

    With `software` also those of a lab with `LabOptions(software=True)`.
    """
    await tools_python(progress)
    await first_available(progress)
    if software:
        await with_software(progress)
