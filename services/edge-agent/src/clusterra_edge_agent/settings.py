"""The edge-agent's settings, from environment variables named `CLUSTERRA_*`."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

import structlog
from clusterra_contracts.identity import ClusterRef, Id
from clusterra_runtime.settings import ServiceSettings
from pydantic import Field, StringConstraints, field_validator, model_validator

log = structlog.get_logger(__name__)

GHOST_SECONDS = 480.0
MIN_GHOST_SECONDS = 60.0
"""A shorter time is a mistake: it would delete machines that are still booting."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Settings(ServiceSettings):
    """Settings of one agent, which serves one cluster. Tuples are JSON lists in the environment."""

    tenant: Id
    """Id of the tenant whose cluster this agent serves."""
    cluster: Id
    """Id of the cluster that this agent serves."""
    substrate: Literal["process", "kubernetes"] = "process"
    """What runs the workers: `process` starts slurmd on this host, `kubernetes` scales Deployments or NodeSets."""

    shared_dir: Path
    """The cluster's shared folder as this agent sees it. Jobs write their output there."""
    state_dir: Path
    """This agent's own folder, kept over restarts: its worker records and the order of the last desired state it
    accepted."""

    gateway_url: str | None = None
    """The gateway, which takes heartbeats while NATS is unreachable. None: no fallback."""
    agent_key_file: Path | None = None
    """File with this cluster's agent key, which the gateway requires. It is read again when it changes."""
    gateway_without_tls: bool = False
    """Whether `gateway_url` may be http:// to another machine. Safe only where the network itself is encrypted."""

    worker_launcher: tuple[str, ...] = ()
    """Command that runs slurmd, such as `["chroot", "/srv/slurm"]`. It stays in slurmd's session until slurmd ends."""
    slurmd_path: str = "slurmd"
    """Path of slurmd, as seen through the launcher."""
    slurmd_conf: str | None = None
    """Path of slurm.conf, as seen through the launcher. Set exactly one of this and `slurmd_conf_server`."""
    slurmd_conf_server: Annotated[str, StringConstraints(pattern=r"^[^:\s]+:[0-9]+$")] | None = None
    """slurmctld as `host:port`, from which slurmd fetches its configuration."""
    slurmd_spool: str | None = None
    """The spool folder of one slurmd as this agent sees it, with `{worker}` for its name. It is removed with the
    worker."""
    slurmd_first_port: Annotated[int, Field(ge=1, le=65535)] = 17001
    """First of the ports on which slurmd listens: one for each worker."""
    slurmd_ports: Annotated[int, Field(ge=1, le=65535)] = 1000
    """Number of ports, counted from the first. It is also the maximum number of workers."""
    slurmd_grace_seconds: Annotated[float, Field(gt=0)] = 10.0
    """Time between SIGTERM and SIGKILL when a worker is removed."""
    slurmd_jobs_grace_seconds: Annotated[float, Field(gt=0)] = 100.0
    """How long the removal of a worker waits for jobs that run there although it was drained and idle."""
    scontrol_path: str = "scontrol"
    """Path of scontrol, as seen through the launcher. It drains a worker's node before the worker ends. Empty: the
    agent only waits for the job steps that it finds on this host."""

    kubernetes_namespace: str = "slurm"
    """Namespace of the workers' Deployments or NodeSets."""
    kubernetes_target: Literal["deployment", "slinky", "soperator"] = "deployment"
    """What owns the worker pods: our Deployments, or the NodeSets of Slinky's operator or of Soperator."""
    kubeconfig: Path | None = None
    """kubeconfig of the API server. None: the ServiceAccount of the pod that this agent runs in."""

    karpenter_metrics_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s@]+$")] | None = None
    """Karpenter's metrics endpoint, from which prices are read. None: no prices are reported."""
    ghost_seconds: float = GHOST_SECONDS
    """How long a NodeClaim may be without a worker before it is deleted. Values below 60 s are replaced by 480 s."""

    @property
    def ref(self) -> ClusterRef:
        """The tenant and cluster that this agent serves."""
        return ClusterRef(tenant=self.tenant, cluster=self.cluster)

    @property
    def slurmd_port_range(self) -> range:
        """The range of ports for workers."""
        return range(self.slurmd_first_port, self.slurmd_first_port + self.slurmd_ports)

    @field_validator("ghost_seconds")
    @classmethod
    def _long_enough_ghost_seconds(cls, seconds: float) -> float:
        if seconds >= MIN_GHOST_SECONDS:
            return seconds
        log.warning("ghost_seconds_too_short", given=seconds, least=MIN_GHOST_SECONDS, taken=GHOST_SECONDS)
        return GHOST_SECONDS

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.substrate == "process" and (self.slurmd_conf is None) == (self.slurmd_conf_server is None):
            raise ValueError("set exactly one of CLUSTERRA_SLURMD_CONF and CLUSTERRA_SLURMD_CONF_SERVER")
        if self.slurmd_spool is not None and "{worker}" not in self.slurmd_spool:
            raise ValueError(
                "CLUSTERRA_SLURMD_SPOOL must contain {worker}, because the folder is removed with its worker"
            )
        if (self.gateway_url is None) != (self.agent_key_file is None):
            raise ValueError("CLUSTERRA_GATEWAY_URL and CLUSTERRA_AGENT_KEY_FILE belong together: set both or none")
        if self.gateway_url is not None:
            self._check_gateway(self.gateway_url)
        if self.slurmd_port_range.stop > 65536:
            raise ValueError("CLUSTERRA_SLURMD_FIRST_PORT + CLUSTERRA_SLURMD_PORTS must not exceed port 65535")
        return self

    def _check_gateway(self, url: str) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
            raise ValueError(
                "CLUSTERRA_GATEWAY_URL must be a URL without user, query and fragment, such as https://gateway.example.com"
            )
        plain = parts.scheme == "http" and (self.gateway_without_tls or parts.hostname in LOOPBACK)
        if parts.scheme != "https" and not plain:
            raise ValueError(
                "CLUSTERRA_GATEWAY_URL must be https:// because it receives a key; http:// is only for this machine"
            )
