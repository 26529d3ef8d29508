"""An agent's heartbeat over HTTP: `POST /v1/internal/agent/heartbeat`, for agents that cannot reach NATS.

Request and reply follow the documented agents of both generations. Our own agent uses two additional fields,
`heartbeat` and `desired`, which carry the messages of the bus unchanged.
"""

import re
import secrets
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, FailFast, Field, StringConstraints, model_validator

from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import Id, PastMoment, Wire
from clusterra_contracts.scale import DesiredState

PATH = "/v1/internal/agent/heartbeat"
KEY_HEADER = "X-Agent-Key"
EVERY_SECONDS = 1.0
"""The shortest interval between two heartbeats of a cluster; earlier heartbeats are rejected (429)."""

_KEY_PREFIX = "clusterra_agent_"
_KEY = re.compile(rf"{_KEY_PREFIX}[A-Za-z0-9_-]{{43}}")

Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
"""The name of a Kubernetes object."""


def new_key() -> str:
    """Makes an agent key: a prefix that secret scanners can find, and 256 random bits."""
    return f"{_KEY_PREFIX}{secrets.token_urlsafe(32)}"


def is_key(text: str) -> bool:
    """Whether a string has the form of an agent key."""
    return _KEY.fullmatch(text) is not None


def _as_integer(given: object) -> object:
    return int(given) if isinstance(given, float) and given.is_integer() else given


_WHOLE = BeforeValidator(_as_integer)
"""Accepts a whole float as an integer, because JSON does not distinguish 7.0 from 7."""


MAX_SHAPES = 5000
"""The most shapes of a heartbeat. FailFast ends the check of a list at its first wrong item. pydantic has nothing like
it for an object, so its size is bounded."""


def _few(given: object) -> object:
    if isinstance(given, dict) and len(given) > MAX_SHAPES:
        raise ValueError(f"there are more than {MAX_SHAPES} shapes")
    return given


_FEW = BeforeValidator(_few)


class _FromAgent(Wire):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class CapacityPods(_FromAgent):
    """The number of workers of one shape that exist or are being created."""

    count: Annotated[int, Field(ge=0, le=2**31 - 1), _WHOLE]


class AgentNodeClaim(_FromAgent):
    """A machine that Karpenter has ordered. Fields are empty where Karpenter does not report them."""

    name: Name
    instance_id: str = ""
    instance_type: str = ""
    lifecycle: str = ""
    zone: str = ""
    nodepool: str = ""
    node_name: str = ""
    billable_from: PastMoment
    launched: bool


class AgentPrice(_FromAgent):
    """The current price of a machine, in US dollars per hour."""

    instance_type: str
    lifecycle: str
    zone: str
    usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AgentHeartbeat(_FromAgent):
    """The state of an agent's workers. A list that is null or missing could not be read; empty means none."""

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
    """The major version is the agent's generation. Agents from version 5 on run capacity pods of arbitrary shapes;
    earlier agents run one Deployment per shape."""
    capacity_pods: Annotated[dict[Name, CapacityPods], _FEW] | None = None
    """Workers by the `name` of their scaling command."""
    last_applied_version: Annotated[int, Field(ge=0, le=2**63 - 1), _WHOLE] = 0
    """The last `scaling_commands_version` that the agent applied; 0 before the first."""
    slurm_key_hash: str = ""
    """The hexadecimal SHA-256 of the agent's Slurm key; empty when it has no key."""
    agent_ip: str = ""
    k8s_nodes: Annotated[tuple[Name, ...], FailFast()] | None = None
    """The Kubernetes nodes that workers run on."""
    nodeclaims: Annotated[tuple[AgentNodeClaim, ...], FailFast()] | None = None
    prices: Annotated[tuple[AgentPrice, ...], FailFast()] | None = None
    heartbeat: Heartbeat | None = None
    """The full heartbeat of the bus. Only our own agent sends it, and then needs none of the lists above."""

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.heartbeat is None and self.capacity_pods is None:
            raise ValueError("capacity_pods must list the workers ({} for none): without it no command is safe")
        return self


class FreeShape(Wire):
    """The resources that a capacity pod requests. Memory is in GiB; `tmp_mib` is local disk in MiB."""

    arch: str
    vcpus: int
    mem_gib: int
    gpu_count: int = 0
    gpu_model: str = ""
    tmp_mib: int = 0
    on_demand: bool = False


class ScalingCommand(Wire):
    """The desired number of workers of one shape.

    For agents from version 5 on, `name` is the shape's name and `shape` the resources of a pod. For earlier agents,
    `name` is the Deployment `slurmd-<shape>` and `shape` the shape's name.
    """

    name: str
    replicas: Annotated[int, Field(ge=0)]
    shape: FreeShape | str


class AgentHeartbeatReply(Wire):
    """What the agent should do. An agent that sent `heartbeat` follows only `desired`."""

    ack: bool = True
    scaling_commands: tuple[ScalingCommand, ...] | None
    """A documented agent removes every shape that is not listed, and all shapes on null, so every shape that the agent
    runs is always listed. Null only for an agent that sent `heartbeat`."""
    scaling_commands_version: Annotated[int, Field(ge=0)]
    """Rises with every desired state of a cluster; 0 before the first."""
    slurm_key: Annotated[str | None, Field(repr=False)] = None
    """Base64; set only when the agent's key differs."""
    protected_nodes: tuple[str, ...]
    """Kubernetes nodes that must not be disrupted."""
    desired: DesiredState | None = None
    """The last desired state, for an agent that sent `heartbeat`; null means "no opinion"."""
