"""What an edge-agent is told by its environment (`CLUSTERRA_*`)."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

import structlog
from clusterra_contracts.identity import ClusterRef, Id
from clusterra_runtime.settings import ServiceSettings
from pydantic import Field, StringConstraints, field_validator, model_validator

log = structlog.get_logger(__name__)

GHOST_SECONDS = 480.0
LEAST_GHOST_SECONDS = 60.0
"""Less is a mistake: it would end machines that are still booting."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Settings(ServiceSettings):
    """One agent serves one cluster. Tuples are JSON lists in the environment."""

    tenant: Id
    cluster: Id
    substrate: Literal["process", "kubernetes"] = "process"

    shared_dir: Path
    """The cluster's shared folder as this agent sees it; jobs write their output there."""
    state_dir: Path
    """This agent's own folder, kept over its restarts: the workers it started, and what it obeyed last."""

    gateway_url: str | None = None
    """The gateway, for heartbeats while NATS cannot be reached; None for none."""
    agent_key_file: Path | None = None
    """This cluster's agent key, which the gateway asks for; read again once the file changes."""
    gateway_without_tls: bool = False
    """Whether `gateway_url` may be http:// to another machine: only where the network itself is encrypted."""

    worker_launcher: tuple[str, ...] = ()
    """Put before slurmd, such as `["chroot", "/srv/slurm"]`. It stays in slurmd's session until slurmd ends."""
    slurmd_path: str = "slurmd"
    """slurmd, as seen through the launcher."""
    slurmd_conf: str | None = None
    """A slurm.conf, as seen through the launcher. Processes need exactly one of this and `slurmd_conf_server`."""
    slurmd_conf_server: Annotated[str, StringConstraints(pattern=r"^[^:\s]+:[0-9]+$")] | None = None
    """slurmctld as `host:port`, to fetch the configuration from."""
    slurmd_spool: str | None = None
    """The spool folder of one slurmd as this agent sees it, with `{worker}` for its name; removed with the worker."""
    slurmd_first_port: Annotated[int, Field(ge=1, le=65535)] = 17001
    slurmd_ports: Annotated[int, Field(ge=1, le=65535)] = 1000
    """How many ports there are from the first one on; also the most workers there can be."""
    slurmd_grace_seconds: Annotated[float, Field(gt=0)] = 10.0
    """From SIGTERM to SIGKILL of a worker that is removed."""

    kubernetes_namespace: str = "slurm"
    """Where the Deployments or NodeSets of the workers are."""
    kubernetes_target: Literal["deployment", "slinky", "soperator"] = "deployment"
    """Whose pods the workers are: of our Deployments, or of the NodeSets of Slinky's operator or of Soperator."""
    kubeconfig: Path | None = None
    """The way to the API server; None for the ServiceAccount of the pod that this agent runs in."""

    karpenter_metrics_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s@]+$")] | None = None
    """Karpenter's metrics, which tell what machines cost; None where nobody needs to know."""
    ghost_seconds: float = GHOST_SECONDS
    """For how long a machine may carry no worker until it is given back; less than 60 s is taken for 480 s."""

    @property
    def ref(self) -> ClusterRef:
        """The cluster."""
        return ClusterRef(tenant=self.tenant, cluster=self.cluster)

    @property
    def slurmd_port_range(self) -> range:
        """The ports for workers."""
        return range(self.slurmd_first_port, self.slurmd_first_port + self.slurmd_ports)

    @field_validator("ghost_seconds")
    @classmethod
    def _long_enough(cls, seconds: float) -> float:
        if seconds >= LEAST_GHOST_SECONDS:
            return seconds
        log.warning("ghost_seconds_too_short", given=seconds, least=LEAST_GHOST_SECONDS, taken=GHOST_SECONDS)
        return GHOST_SECONDS

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.substrate == "process" and (self.slurmd_conf is None) == (self.slurmd_conf_server is None):
            raise ValueError("set exactly one of CLUSTERRA_SLURMD_CONF and CLUSTERRA_SLURMD_CONF_SERVER")
        if self.slurmd_spool is not None and "{worker}" not in self.slurmd_spool:
            raise ValueError("CLUSTERRA_SLURMD_SPOOL must hold {worker}: it is removed with one worker")
        if (self.gateway_url is None) != (self.agent_key_file is None):
            raise ValueError("CLUSTERRA_GATEWAY_URL and CLUSTERRA_AGENT_KEY_FILE belong together: set both or none")
        if self.gateway_url is not None:
            self._check_gateway(self.gateway_url)
        if self.slurmd_port_range.stop > 65536:
            raise ValueError("CLUSTERRA_SLURMD_FIRST_PORT + CLUSTERRA_SLURMD_PORTS must not go beyond port 65535")
        return self

    def _check_gateway(self, url: str) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
            raise ValueError("CLUSTERRA_GATEWAY_URL must be an address such as https://gateway.example.com")
        plain = parts.scheme == "http" and (self.gateway_without_tls or parts.hostname in LOOPBACK)
        if parts.scheme != "https" and not plain:
            raise ValueError(
                "CLUSTERRA_GATEWAY_URL must be https:// (http:// only for this very machine): a key goes there"
            )
