"""Models of nodes and of Karpenter's NodeClaims.

They contain only what is reported or acted upon. With one machine per worker there may be thousands, each with dozens
of labels. A change of a field that is not read, such as kubelet's heartbeat, counts as no change.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any

from clusterra_contracts import heartbeat
from clusterra_contracts.identity import Moment
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client.interning import CONFIG, Metadata, NullableList, interned_items
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
    """Metadata of a node or a NodeClaim."""

    labels: Annotated[dict[str, str], interned_items(*_LABELS)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], interned_items()] = Field(default_factory=dict)


class Machine(Object):
    """A node or a NodeClaim."""

    metadata: MachineMetadata

    @property
    def created_at(self) -> Moment:
        """When it was created."""
        assert self.metadata.creation_timestamp is not None  # noqa: S101 - the API server sets it
        return self.metadata.creation_timestamp

    @property
    def terminating(self) -> bool:
        """Whether its deletion has been accepted."""
        return self.metadata.deletion_timestamp is not None


class NodeCondition(Resource):
    """A condition of a node."""

    type: str
    status: str


class NodeSpec(Resource):
    """The cloud's identifier of the node."""

    provider_id: Annotated[str, Field(alias="providerID")] = ""


class NodeStatus(Resource):
    """The conditions that say whether kubelet serves."""

    conditions: Annotated[NullableList[NodeCondition], BeforeValidator(_of_types("Ready"))] = ()


class Node(Machine):
    """A machine that workers run on."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @cached_property
    def reported(self) -> heartbeat.Node:
        """The node as heartbeats show it. Cached, because heartbeats are frequent and it rarely changes."""
        return heartbeat.Node(
            name=self.name,
            ready=any(condition.status == "True" for condition in self.status.conditions),
            created_at=self.created_at,
            instance_type=self.metadata.labels.get(INSTANCE_TYPE_LABEL, ""),
            instance_id=_instance_id(self.spec.provider_id),
        )


class ClaimCondition(Resource):
    """A condition of a NodeClaim."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Moment | None = None


class ClaimStatus(Resource):
    """Karpenter's progress with it."""

    provider_id: Annotated[str, Field(alias="providerID")] = ""
    node_name: str = ""
    conditions: Annotated[NullableList[ClaimCondition], BeforeValidator(_of_types("Launched", "Initialized"))] = ()


class NodeClaim(Machine):
    """A machine that Karpenter has ordered."""

    status: ClaimStatus = ClaimStatus()

    @property
    def node_pool(self) -> str:
        """The NodePool that it was ordered for."""
        return self.metadata.labels.get(NODE_POOL_LABEL, "")

    @property
    def is_booting(self) -> bool:
        """Whether it has been bought and does not serve yet."""
        return self._is("Launched") and not self._is("Initialized") and not self.terminating

    @property
    def capacity_error(self) -> str:
        """Why it cannot be bought, if the cloud has no such machine now; else empty."""
        launched = self._condition("Launched")
        if launched is None or launched.status == "True" or "InsufficientCapacity" not in launched.reason:
            return ""
        return f"{launched.reason}: {launched.message}".removesuffix(": ")

    @cached_property
    def reported(self) -> heartbeat.NodeClaim:
        """The NodeClaim as heartbeats show it. Cached, because heartbeats are frequent and it rarely changes."""
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

    def may_match(self, selector: dict[str, str]) -> bool:
        """Whether its node can match this node selector, as far as the labels are known."""
        labels = self.metadata.labels
        return all(labels.get(key, value) == value for key, value in selector.items())

    def _is(self, type_: str) -> bool:
        condition = self._condition(type_)
        return condition is not None and condition.status == "True"

    def _condition(self, type_: str) -> ClaimCondition | None:
        return next((each for each in self.status.conditions if each.type == type_), None)


def lifecycle(capacity_type: str) -> heartbeat.Lifecycle | None:
    """Maps a capacity type of Karpenter. None for `reserved`, which is billed differently, and for unknown types."""
    match capacity_type:
        case "spot" | "on-demand":
            return capacity_type
        case _:
            return None


def _instance_id(provider_id: str) -> str:
    """Returns the last part: `aws:///eu-west-1a/i-0abc` names the instance there, as other clouds do."""
    return provider_id.rpartition("/")[2]
