"""Runs the lab with the central side in Kubernetes: the dev overlay's Deployments, and the edge-agent in its own pod.

Slurm's control plane, DynamoDB and the OIDC provider stay processes of this machine, at an address that pods reach.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from yarl import URL

from clusterra_lab.central.images import ensure_images, image_tag
from clusterra_lab.central.installation import Installation, roll
from clusterra_lab.central.overlay import CentralSite
from clusterra_lab.kube.edge import KubernetesEdge, kubernetes_edge
from clusterra_lab.kube.node_network import MACHINE_NAME
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.machine.secret_file import write_secret
from clusterra_lab.parts.aws import Aws, aws_emulator
from clusterra_lab.parts.curl import cookie_file
from clusterra_lab.parts.oidc import Oidc, oidc_provider
from clusterra_lab.parts.user import User, logged_in
from clusterra_lab.slurm.config import ClusterOptions
from clusterra_lab.slurm.control_plane import OwnedSlurmCluster, slurm_cluster
from clusterra_lab.slurm.registration import registered_at
from clusterra_lab.stack.home import Home, Summary
from clusterra_lab.stack.services import CLUSTER, PEOPLE
from clusterra_lab.stack.stack import ADMITS_SECONDS, COOKIES, DEFAULT_OPTIONS, LabOptions
from clusterra_lab.stack.up import open_home

PUBLIC_URL = "http://127.0.0.1:8080"
"""The gateway's address for browsers in the dev overlay: that of a `kubectl port-forward`."""


@dataclass(frozen=True)
class KubernetesStack:
    """A running lab whose services are pods."""

    home: Home
    edge: KubernetesEdge
    site: CentralSite
    aws: Aws
    oidc: Oidc
    slurm: OwnedSlurmCluster
    bus: Client
    """A client with the rights of `clusterra-admin`."""
    gateway_url: str
    cluster: ClusterRef = CLUSTER

    async def kubectl(self, *argv: str) -> str:
        """Run kubectl as the administrator. Raises KubectlFailed."""
        return await self.edge.plane.kubectl(*argv)

    async def roll(self, service: str) -> None:
        """Replace the pods of a service (one of SERVICES, or `edge-agent`), and wait for the new ones.

        Raises KubectlFailed.
        """
        await roll(self.edge, service)

    def registered_at(self, node: str) -> datetime | None:
        """See `DemoSite.registered_at`."""
        return registered_at(self.slurm, node)

    async def save_login(self, email: str = PEOPLE[0].email) -> None:
        """Log a person in and save the session's cookies for curl. Raises LoginRejected, UnexpectedAnswerError."""
        async with self.user(email) as user:
            write_secret(self.home.directory / COOKIES, cookie_file(user.session.cookie_jar, self.site.gateway))

    async def log_in(self, authorization_url: str, email: str) -> str:
        """Log in at the provider like a browser, and return the path of the callback. Raises LoginRejected."""
        return URL(await self.oidc.log_in(authorization_url, email)).raw_path_qs

    def user(self, email: str) -> AbstractAsyncContextManager[User]:
        """Log a person in at the gateway until the block ends. Raises LoginRejected, UnexpectedAnswerError."""
        return logged_in(self.gateway_url, self.cluster.cluster, lambda url: self.log_in(url, email))

    @property
    def summary(self) -> Summary:
        """Its addresses and logins."""
        cookies = self.home.directory / COOKIES
        return Summary(
            cookies=cookies if cookies.exists() else None,
            addresses={
                "gateway": self.gateway_url,
                "console": f"{self.gateway_url}/",
                "NATS": self.site.nats_url,
                "AWS": self.aws.endpoint_url,
                "OIDC issuer": self.oidc.issuer,
                "slurmrestd": self.slurm.slurmrestd_url,
                "kubeconfig": str(self.edge.plane.kubeconfig),
            },
            logins={email: login.password_file for email, login in self.oidc.logins.items()},
        )


@asynccontextmanager
async def kubernetes_stack(
    directory: Path, options: LabOptions = DEFAULT_OPTIONS, *, progress: Progress = silent
) -> AsyncIterator[KubernetesStack]:
    """Run everything in `directory` until the block ends; nothing of it is left then. Every run starts empty.

    Needs root, and a container engine for the images. Raises LabProblem, TimeoutError.
    """
    images = await ensure_images(progress)
    async with open_home(directory) as home, AsyncExitStack() as running:
        home.discard()
        edge = await running.enter_async_context(
            kubernetes_edge(home.directory / "kubernetes", images=[images], own_network=True, progress=progress)
        )
        site = CentralSite(home.directory / "central", edge.services, image_tag())
        aws = await running.enter_async_context(aws_emulator(home.state / "aws", host=edge.address, progress=progress))
        oidc = await running.enter_async_context(
            oidc_provider(
                home.state / "oidc",
                redirect_uris=[f"{PUBLIC_URL}/v1/auth/callback"],
                people=PEOPLE,
                host=edge.address,
                name=MACHINE_NAME,
                progress=progress,
            )
        )
        of_slurm = ClusterOptions(
            address=edge.address,
            rest_address=edge.address,
            one_host=edge.one_host,
            max_nodes=options.policy.max_workers,
            settings=options.settings,
        )
        slurm = await running.enter_async_context(slurm_cluster(home.state / "slurm", of_slurm, progress=progress))
        installation = Installation(home, edge, site, aws, oidc, slurm, progress)
        await installation.install(options.policy)
        client = await bus.connect(installation.admin_settings, "lab")
        running.push_async_callback(bus.close, client)
        await until(slurm.admits, seconds=ADMITS_SECONDS, what="Slurm to accept jobs", every=0.1)
        yield KubernetesStack(home, edge, site, aws, oidc, slurm, client, site.gateway_url)
