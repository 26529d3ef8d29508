"""An agent's heartbeat over HTTP: `POST /v1/internal/agent/heartbeat`, for agents that do not reach NATS.

The request and the reply are those of the documented agents, of both generations, with two fields more that our own
agent uses: `heartbeat` and `desired`, which carry the very messages of the bus.
"""

import re
import secrets
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import Id, Moment, Wire
from clusterra_contracts.scale import DesiredState

PATH = "/v1/internal/agent/heartbeat"
KEY_HEADER = "X-Agent-Key"
EVERY_SECONDS = 1.0
"""Heartbeats of a cluster that come faster than this are refused (429)."""

_KEY_PREFIX = "clusterra_agent_"
_KEY = re.compile(rf"{_KEY_PREFIX}[A-Za-z0-9_-]{{43}}")

Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
"""A name of Kubernetes."""


def new_key() -> str:
    """A new agent's key: a prefix by which leaked ones are found, and 256 random bits."""
    return f"{_KEY_PREFIX}{secrets.token_urlsafe(32)}"


def is_key(text: str) -> bool:
    """Whether it has the form of an agent's key."""
    return _KEY.fullmatch(text) is not None


def _whole(given: object) -> object:
    return int(given) if isinstance(given, float) and given.is_integer() else given


_WHOLE = BeforeValidator(_whole)
"""JSON knows no integers: 7.0 is 7."""


class _FromAgent(Wire):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class CapacityPods(_FromAgent):
    """How many workers of one shape there are, or are being made."""

    count: Annotated[int, Field(ge=0, le=2**31 - 1), _WHOLE]


class AgentNodeClaim(_FromAgent):
    """A machine that Karpenter has ordered; empty where it does not say."""

    name: Name
    instance_id: str = ""
    instance_type: str = ""
    lifecycle: str = ""
    zone: str = ""
    nodepool: str = ""
    node_name: str = ""
    billable_from: Moment
    launched: bool


class AgentPrice(_FromAgent):
    """What a machine costs now, in US dollars per hour."""

    instance_type: str
    lifecycle: str
    zone: str
    usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AgentHeartbeat(_FromAgent):
    """What an agent has. A list that is null or missing could not be read; empty means none."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": [name], "properties": {name: {"type": "object"}}}
                for name in ("capacity_pods", "heartbeat")
            ]
        }
    )

    cluster_id: Id
    agent_version: Annotated[str, StringConstraints(max_length=64)]
    """Its major number tells the generation: from 5 on an agent has capacity pods of free shapes, before that it has
    a Deployment for each shape."""
    capacity_pods: dict[Name, CapacityPods] | None = None
    """By the name that commands have."""
    last_applied_version: Annotated[int, Field(ge=0, le=2**63 - 1), _WHOLE] = 0
    """The `scaling_commands_version` it has carried out last; 0 before the first."""
    slurm_key_hash: str = ""
    """The hexadecimal SHA-256 of its Slurm key; empty when it has none."""
    agent_ip: str = ""
    k8s_nodes: tuple[Name, ...] | None = None
    """The Kubernetes nodes for workers."""
    nodeclaims: tuple[AgentNodeClaim, ...] | None = None
    prices: tuple[AgentPrice, ...] | None = None
    heartbeat: Heartbeat | None = None
    """Everything, as it is told on the bus: only our own agent sends it, and it needs nothing of the above then."""

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.heartbeat is None and self.capacity_pods is None:
            raise ValueError("capacity_pods must say what there is ({} for none): no command is safe without")
        return self


class FreeShape(Wire):
    """What a capacity pod asks for. Memory is GiB, `tmp_mib` is MiB of local disk."""

    arch: str
    vcpus: int
    mem_gib: int
    gpu_count: int = 0
    gpu_model: str = ""
    tmp_mib: int = 0
    on_demand: bool = False


class ScalingCommand(Wire):
    """How many workers of one shape there should be.

    From version 5 on: the shape's name as `name`, and what a pod asks for as `shape`. Before: the Deployment
    `slurmd-<shape>` as `name`, and the shape's name as `shape`.
    """

    name: str
    replicas: Annotated[int, Field(ge=0)]
    shape: FreeShape | str


class AgentHeartbeatReply(Wire):
    """What an agent should do. An agent that sent `heartbeat` follows `desired` alone."""

    ack: bool = True
    scaling_commands: tuple[ScalingCommand, ...] | None
    """A documented agent removes every shape that is not listed, and all of them on null: so what it has is always
    listed. Null only for an agent that sent `heartbeat`."""
    scaling_commands_version: Annotated[int, Field(ge=0)]
    """Rises with every desired state of a cluster; 0 before the first."""
    slurm_key: Annotated[str | None, Field(repr=False)] = None
    """Base64; only when the agent's is another one."""
    protected_nodes: tuple[str, ...]
    """Kubernetes nodes that must not be disrupted."""
    desired: DesiredState | None = None
    """The last desired state, for an agent that sent `heartbeat`; null is no opinion."""
