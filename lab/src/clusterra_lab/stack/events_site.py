"""Runs what carries events, without Slurm: NATS, DynamoDB, an OIDC provider, and replicas of two services.

The tenants and the cluster are those of a lab. Nobody serves the cluster's queue: whoever wants events publishes them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.client import Client

from clusterra_lab.machine.ports import kept_port
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.machine.secret_file import ensure_secret
from clusterra_lab.parts.aws import Aws, aws_emulator
from clusterra_lab.parts.nats import NatsCluster, nats_cluster
from clusterra_lab.parts.oidc import oidc_provider
from clusterra_lab.parts.user import User, logged_in
from clusterra_lab.slurm.control_plane import SlurmCluster
from clusterra_lab.stack.fleet import Command, RunningService, fleet, run_setup
from clusterra_lab.stack.nats_login import USERS
from clusterra_lab.stack.services import (
    CLUSTER,
    OTHER_TENANT,
    PEOPLE,
    POLICY,
    Parts,
    provisioning,
    services,
    tables,
)

ADMIN, SECOND_ADMIN = PEOPLE[0].email, PEOPLE[2].email
SECOND = ClusterRef(tenant=str(OTHER_TENANT["id"]), cluster=CLUSTER.cluster)
"""The cluster of the second tenant."""


@dataclass(frozen=True)
class SiteOptions:
    """How large a site is."""

    servers: int = 3
    """The servers of NATS. Each stream has a replica on every one."""
    gateways: int = 2
    events: int = 2
    """How many replicas of the service there are."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional variables of the services."""


@dataclass(frozen=True)
class EventsSite:
    """A running site. Each server and each replica can be killed and started again separately."""

    nats: NatsCluster
    aws: Aws
    services: Mapping[str, RunningService]
    """By name: `events`, `events-2`, `gateway`, `gateway-2`."""
    gateway_urls: tuple[str, ...]
    bus: Client
    """A client that may publish and subscribe to everything."""
    admin: User
    """Signed in at the first gateway."""
    second_admin: User
    """That of the second tenant."""
    cluster: ClusterRef = CLUSTER

    def replicas(self, name: str) -> list[RunningService]:
        """The replicas of a service."""
        return [each for key, each in self.services.items() if key.split("-")[0] == name]


@asynccontextmanager
async def events_site(
    directory: Path, options: SiteOptions | None = None, *, progress: Progress = silent
) -> AsyncIterator[EventsSite]:
    """Run a site in a folder until the block ends. Raises LabProblem, TimeoutError."""
    options = options or SiteOptions()
    urls = [f"http://127.0.0.1:{kept_port(directory / f'gateway-{n}-port')}" for n in range(options.gateways)]
    async with AsyncExitStack() as running:
        callback = f"{urls[0]}/v1/auth/callback"
        nats, aws, oidc = await asyncio.gather(
            running.enter_async_context(nats_cluster(directory / "nats", users=USERS, size=options.servers)),
            running.enter_async_context(aws_emulator(directory / "aws", progress=progress)),
            running.enter_async_context(
                oidc_provider(directory / "oidc", redirect_uris=[callback], people=PEOPLE, progress=progress)
            ),
        )
        parts = Parts(
            directory=directory,
            nats=nats,
            aws=aws,
            oidc=oidc,
            slurm=_no_slurm(directory),
            edge={},
            gateway_url=urls[0],
            sessions_url=f"http://localhost:{kept_port(directory / 'sessions-port')}",
        )
        await topology.apply_when_ready(nats.settings("lab"), topology.Size(options.servers))
        client = await bus.connect(nats.settings("lab"), "lab")
        running.push_async_callback(bus.close, client)
        tenants = _with_second_tenant(provisioning(parts, POLICY), parts.provision_file)
        await run_setup([tables(parts), tenants], directory / "logs", progress)
        commands = _replicas(services(parts, options.environment), urls, options.events)
        started = await running.enter_async_context(fleet(commands, directory / "logs", progress))
        admins = [
            await running.enter_async_context(
                logged_in(urls[0], CLUSTER.cluster, lambda url, email=email: oidc.log_in(url, email))  # type: ignore[misc]
            )
            for email in (ADMIN, SECOND_ADMIN)
        ]
        yield EventsSite(nats, aws, started, tuple(urls), client, admins[0], admins[1])


def _replicas(commands: list[Command], urls: list[str], events: int) -> list[Command]:
    """The commands of all replicas. Those of the gateway have an address each, and one session key."""
    own: Mapping[str, list[dict[str, str]]] = {
        "events": [{}] * events,
        "gateway": [{"CLUSTERRA_HTTP_PORT": url.rpartition(":")[2], "CLUSTERRA_SESSIONS_PORT": "0"} for url in urls],
    }
    return [
        replace(
            command,
            name=command.name if number == 1 else f"{command.name}-{number}",
            environment={**command.environment, **variables},
        )
        for command in commands
        for number, variables in enumerate(own.get(command.name, ()), 1)
    ]


def _with_second_tenant(command: Command, file: Path) -> Command:
    """The command, after a cluster was added to the second tenant of its file."""
    content = json.loads(file.read_text())
    first, second = content["tenants"]
    clusters = [{name: value for name, value in each.items() if name != "agent_key"} for each in first["clusters"]]
    file.write_text(json.dumps({"tenants": [first, {**second, "admins": [SECOND_ADMIN], "clusters": clusters}]}))
    return command


def _no_slurm(directory: Path) -> SlurmCluster:
    """A cluster that does not run, for the provision file."""
    key = directory / "jwt-key"
    ensure_secret(key)
    return SlurmCluster(
        name=CLUSTER.cluster,
        slurmrestd_url="http://127.0.0.1:1",
        slurmctld_address="127.0.0.1",
        slurmctld_port=1,
        slurm_key_file=key,
        jwt_key_file=key,
        operator=SlurmUser(name="clusterra", uid=5000, gid=5000),
        shared_dir=directory / "shared",
        spool_dir=directory / "spool",
        log_dir=directory / "logs",
        launcher=(),
        init_pid=0,
    )
