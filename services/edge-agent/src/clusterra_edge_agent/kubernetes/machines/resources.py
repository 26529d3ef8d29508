"""What we read of nodes and of Karpenter's NodeClaims.

No more than is told or acted upon: with one machine for each worker there may be thousands, each has dozens of labels,
and what is not read is no change either, such as kubelet's signs of life.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any

from clusterra_contracts import heartbeat
from clusterra_contracts.identity import Moment
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client.interning import CONFIG, Many, Metadata, kept
from clusterra_edge_agent.kubernetes.client.resources import Object, Resource
from clusterra_edge_agent.kubernetes.machines.karpenter import CPU_LABEL, FAMILY_LABEL, NODE_POOL_LABEL

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
CAPACITY_TYPE_LABEL = "karpenter.sh/capacity-type"
ZONE_LABEL = "topology.kubernetes.io/zone"
ARCH_LABEL = "kubernetes.io/arch"

_LABELS = (NODE_POOL_LABEL, FAMILY_LABEL, CPU_LABEL, INSTANCE_TYPE_LABEL, CAPACITY_TYPE_LABEL, ZONE_LABEL, ARCH_LABEL)


def _of_types(*types: str) -> Callable[[Any], list[Any]]:
    return lambda conditions: [each for each in conditions or () if each.get("type") in types]


@dataclass(frozen=True, slots=True, config=CONFIG)
class MachineMetadata(Metadata):
    """Of a node or of a NodeClaim."""

    labels: Annotated[dict[str, str], kept(*_LABELS)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], kept()] = Field(default_factory=dict)


class Machine(Object):
    """A node or a NodeClaim."""

    metadata: MachineMetadata

    @property
    def created_at(self) -> Moment:
        """When it was made."""
        assert self.metadata.creation_timestamp is not None  # noqa: S101 - the API server sets it
        return self.metadata.creation_timestamp

    @property
    def terminating(self) -> bool:
        """Whether its deletion has been accepted."""
        return self.metadata.deletion_timestamp is not None


class NodeCondition(Resource):
    """One of the conditions of a node."""

    type: str
    status: str


class NodeSpec(Resource):
    """What the cloud calls it."""

    provider_id: Annotated[str, Field(alias="providerID")] = ""


class NodeStatus(Resource):
    """Whether its kubelet serves."""

    conditions: Annotated[Many[NodeCondition], BeforeValidator(_of_types("Ready"))] = ()


class Node(Machine):
    """A machine that workers run on."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @cached_property
    def fact(self) -> heartbeat.Node:
        """As heartbeats show it: every five seconds, and it hardly ever changes."""
        return heartbeat.Node(
            name=self.name,
            ready=any(condition.status == "True" for condition in self.status.conditions),
            created_at=self.created_at,
            instance_type=self.metadata.labels.get(INSTANCE_TYPE_LABEL, ""),
            instance_id=_instance_id(self.spec.provider_id),
        )


class ClaimCondition(Resource):
    """One of the conditions of a NodeClaim."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Moment | None = None


class ClaimStatus(Resource):
    """How far Karpenter is with it."""

    provider_id: Annotated[str, Field(alias="providerID")] = ""
    node_name: str = ""
    conditions: Annotated[Many[ClaimCondition], BeforeValidator(_of_types("Launched", "Initialized"))] = ()


class NodeClaim(Machine):
    """A machine that Karpenter has ordered."""

    status: ClaimStatus = ClaimStatus()

    @property
    def node_pool(self) -> str:
        """The NodePool it was ordered for."""
        return self.metadata.labels.get(NODE_POOL_LABEL, "")

    @property
    def on_its_way(self) -> bool:
        """Whether it has been bought and does not serve yet."""
        return self._is("Launched") and not self._is("Initialized") and not self.terminating

    @property
    def lack(self) -> str:
        """Why it cannot be bought, where the cloud has no such machine now; else empty."""
        launched = self._condition("Launched")
        if launched is None or launched.status == "True" or "InsufficientCapacity" not in launched.reason:
            return ""
        return f"{launched.reason}: {launched.message}".removesuffix(": ")

    @cached_property
    def fact(self) -> heartbeat.NodeClaim:
        """As heartbeats show it: every five seconds, and it hardly ever changes."""
        labels, launched = self.metadata.labels, self._condition("Launched")
        bought_at = launched.last_transition_time if launched and launched.status == "True" else None
        return heartbeat.NodeClaim(
            name=self.name,
            nodepool=self.node_pool,
            instance_id=_instance_id(self.status.provider_id),
            instance_type=labels.get(INSTANCE_TYPE_LABEL, ""),
            lifecycle=lifecycle(labels.get(CAPACITY_TYPE_LABEL, "")),
            zone=labels.get(ZONE_LABEL, ""),
            node_name=self.status.node_name,
            launched=self._is("Launched"),
            billable_from=bought_at or self.created_at,
        )

    def may_serve(self, selector: dict[str, str]) -> bool:
        """Whether its node can have these labels, as far as is known already."""
        labels = self.metadata.labels
        return all(labels.get(key, value) == value for key, value in selector.items())

    def _is(self, type_: str) -> bool:
        condition = self._condition(type_)
        return condition is not None and condition.status == "True"

    def _condition(self, type_: str) -> ClaimCondition | None:
        return next((each for each in self.status.conditions if each.type == type_), None)


def lifecycle(capacity_type: str) -> heartbeat.Lifecycle | None:
    """Of a capacity type of Karpenter; None for `reserved`, which is paid otherwise, and for what is not known."""
    match capacity_type:
        case "spot" | "on-demand":
            return capacity_type
        case _:
            return None


def _instance_id(provider_id: str) -> str:
    """`aws:///eu-west-1a/i-0abc` names the instance last, as other clouds do."""
    return provider_id.rpartition("/")[2]
