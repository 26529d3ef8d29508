"""Installs the central side and the edge in one Kubernetes, in the steps of an operator."""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path

from clusterra_contracts.registry import ScalingPolicy
from clusterra_runtime.settings import ServiceSettings

from clusterra_lab.central.overlay import JWT_KEYS, NAMESPACE, UID, CentralSite, site_objects, write_overlay
from clusterra_lab.kube.edge import AGENT, AgentPod, KubernetesEdge
from clusterra_lab.kube.edge import NAMESPACE as EDGE_NAMESPACE
from clusterra_lab.machine.progress import Progress
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.oidc import Oidc
from clusterra_lab.slurm.control_plane import SlurmCluster
from clusterra_lab.stack.fleet import Command, run_setup
from clusterra_lab.stack.home import Home
from clusterra_lab.stack.services import CATALOGUE, CLUSTER, provision_file

SERVICES = ("gateway", "gateway-work", "proxy", "scaler", "events")
"""The Deployments of the central side; the edge-agent's is in another namespace."""
_SECONDS = 180
_AWS = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_JWT_KEY = f"{CLUSTER.tenant}-{CLUSTER.cluster}.key"


@dataclass(frozen=True)
class Installation:
    """The parts that an installation is made on; the methods are its steps, in this order."""

    home: Home
    edge: KubernetesEdge
    site: CentralSite
    aws: Aws
    oidc: Oidc
    slurm: SlurmCluster
    progress: Progress

    async def install(self, policy: ScalingPolicy) -> None:
        """Take every step. Raises SetupFailed, KubectlFailed."""
        await self.make_secrets()
        await self.deploy_central()
        await self.provision(policy)
        await self.deploy_edge()

    async def make_secrets(self) -> None:
        """Make every secret of the installation with `clusterra-admin`. Raises SetupFailed."""
        arguments = ["secrets", "init", str(self._secrets), "--tenant", CLUSTER.tenant, "--cluster", CLUSTER.cluster]
        await run_setup([Command("secrets", "clusterra_admin", {}, arguments)], self.home.logs, self.progress)

    async def deploy_central(self) -> None:
        """Apply the lab's overlay of k8s/central, and wait for its Jobs and Deployments. Raises KubectlFailed."""
        self.progress("applying the dev overlay of k8s/central")
        issuer = {"CLUSTERRA_OIDC_ISSUER": self.oidc.issuer, "CLUSTERRA_OIDC_CLIENT_ID": self.oidc.client_id}
        write_overlay(self.site, self._secrets, aws=self._aws, oidc=issuer)
        jwt_keys = {_JWT_KEY: self.slurm.jwt_key_file}
        objects = site_objects(self.site, jwt_keys=jwt_keys, client_secret=self.oidc.client_secret_file)
        # The overlay has the namespace, so the other objects come after it.
        await self._apply(await self.edge.plane.kubectl("kustomize", str(self.site.folder)))
        await self._apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        self.progress(f"waiting for {', '.join(SERVICES)}")
        wait = ("wait", "--for=condition=complete", f"--namespace={NAMESPACE}", f"--timeout={_SECONDS}s")
        await self.edge.plane.kubectl(*wait, "job/topology", "job/tables")
        await asyncio.gather(*(rolled_out(self.edge, service) for service in SERVICES))

    async def provision(self, policy: ScalingPolicy) -> None:
        """Write tenants and clusters to the record. Raises SetupFailed."""
        file = self.home.state / "tenants.json"
        jwt_key, agent_key = f"file:{JWT_KEYS}/{_JWT_KEY}", f"file:{self._of_cluster / 'agent-key'}"
        file.write_text(provision_file(self.slurm, policy, jwt_key=jwt_key, agent_key=agent_key))
        environment = {
            **self._aws,
            "CLUSTERRA_NATS_URL": self.site.nats_url,
            "CLUSTERRA_NATS_CREDENTIALS_FILE": str(self._admin),
            "CLUSTERRA_CATALOGUE_FILE": str(CATALOGUE),
        }
        apply = Command("tenants and clusters", "clusterra_admin", environment, ["provision", "apply", str(file)])
        await run_setup([apply], self.home.logs, self.progress)

    async def deploy_edge(self) -> None:
        """Apply the lab's overlay of k8s/edge, with the agent in its own pod, and wait for it. Raises KubectlFailed."""
        state = self.home.state / "edge-agent"
        state.mkdir(parents=True)
        os.chown(state, UID, UID)
        agent = AgentPod(
            image=f"clusterra-edge-agent:{self.site.tag}",
            settings={
                "CLUSTERRA_TENANT": CLUSTER.tenant,
                "CLUSTERRA_CLUSTER": CLUSTER.cluster,
                "CLUSTERRA_NATS_URL": self.site.nats_url,
                "CLUSTERRA_GATEWAY_URL": self.site.gateway_url,
                "CLUSTERRA_GATEWAY_WITHOUT_TLS": "true",
            },
            credentials=self._of_cluster / "agent.creds",
            key=self._of_cluster / "agent-key",
            state=state,
        )
        self.progress("applying k8s/edge")
        await self.edge.deploy_with_agent(self.slurm, agent)
        await rolled_out(self.edge, AGENT)

    @property
    def admin_settings(self) -> ServiceSettings:
        """Settings of a client with the rights of `clusterra-admin`."""
        return ServiceSettings(nats_url=self.site.nats_url, nats_credentials_file=self._admin)

    async def _apply(self, objects: str) -> None:
        await self.edge.plane.kubectl("apply", "--server-side", "--validate=strict", "--filename=-", input=objects)

    @property
    def _secrets(self) -> Path:
        return self.home.state / "secrets"

    @property
    def _of_cluster(self) -> Path:
        return self._secrets / "clusters" / CLUSTER.tenant / CLUSTER.cluster

    @property
    def _admin(self) -> Path:
        return self._secrets / "nats" / "admin.creds"

    @property
    def _aws(self) -> dict[str, str]:
        return {name: value for name, value in self.aws.environment().items() if name in _AWS}


async def rolled_out(edge: KubernetesEdge, service: str) -> None:
    """Wait until all pods of a service's Deployment are new and available. Raises KubectlFailed."""
    await edge.plane.kubectl("rollout", "status", *_deployment(service), f"--timeout={_SECONDS}s")


async def roll(edge: KubernetesEdge, service: str) -> None:
    """Replace the pods of a service's Deployment, and wait for the new ones. Raises KubectlFailed."""
    await edge.plane.kubectl("rollout", "restart", *_deployment(service))
    await rolled_out(edge, service)


def _deployment(service: str) -> tuple[str, str]:
    return f"deployment/{service}", f"--namespace={EDGE_NAMESPACE if service == AGENT else NAMESPACE}"
