"""Models of the NodeSets of two other operators, as of release 1.2 of Slinky and 5.0 of Soperator.

Both name a pod after its NodeSet and an ordinal, and the Slurm node after the pod. Both reuse the ordinal of a pod for
its successor.
"""

from typing import Annotated, ClassVar, Literal

from clusterra_contracts.identity import WorkerName
from pydantic import Field
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client.interning import CONFIG, NullableList, interned_items
from clusterra_edge_agent.kubernetes.client.resources import (
    Deployment,
    DeploymentSpec,
    Object,
    Pod,
    PodMetadata,
    PodTemplate,
    PodTemplateSpec,
    Resource,
)

SLINKY_GROUP = "slinky.slurm.net/v1beta1"
SLINKY_POD = "app.kubernetes.io/name=slurmd,app.kubernetes.io/component=worker"
SLINKY_POD_NODESET = "app.kubernetes.io/instance"
SLINKY_DELETION_COST = "nodeset.slinky.slurm.net/pod-deletion-cost"
SLINKY_CORDON = "nodeset.slinky.slurm.net/pod-cordon"
"""The operator sets it on a pod that it wants to delete, and keeps the node drained while it is there."""
_BUSY = frozenset({"Allocated", "Mixed", "Completing"})

SOPERATOR_GROUP = "slurm.nebius.ai/v1alpha1"
SOPERATOR_POD = "slurm.nebius.ai/worker=true"
SOPERATOR_POD_NODESET = "slurm.nebius.ai/nodeset"


class SlinkyPodSpec(PodTemplateSpec):
    """The parts of the pod template that determine the name of the Slurm node."""

    hostname: str = ""
    host_network: bool = False


class SlinkyTemplate(PodTemplate):
    """The pod template."""

    spec: SlinkyPodSpec = SlinkyPodSpec()


class SlinkyNodeSetSpec(DeploymentSpec):
    """The desired number of pods, and how they are named."""

    scaling_mode: Literal["StatefulSet", "DaemonSet"] = "StatefulSet"
    template: SlinkyTemplate = SlinkyTemplate()


class SlinkyNodeSet(Deployment):
    """A NodeSet of Slinky, with the workers of one shape."""

    stateful: ClassVar[bool] = True

    spec: SlinkyNodeSetSpec = SlinkyNodeSetSpec()

    @property
    def unscalable(self) -> str:
        """See `Deployment.unscalable`."""
        pod = self.spec.template.spec
        if self.spec.scaling_mode == "DaemonSet":
            return "the NodeSet runs a pod on every node: set spec.scalingMode to StatefulSet"
        if pod.hostname or pod.host_network:
            return "the Slurm nodes are not named after the pods: remove spec.template.spec.hostname and hostNetwork"
        return ""


@dataclass(frozen=True, slots=True, config=CONFIG)
class SlinkyPodMetadata(PodMetadata):
    """Metadata of a worker pod."""

    labels: Annotated[dict[str, str], interned_items(SLINKY_POD_NODESET)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], interned_items(SLINKY_DELETION_COST)] = Field(default_factory=dict)


class SlinkyPod(Pod):
    """A worker. Among pods in the same phase, the operator drains and deletes those with the lowest cost first."""

    cost_annotation: ClassVar[str] = SLINKY_DELETION_COST
    leftover_annotations: ClassVar[tuple[str, ...]] = (SLINKY_CORDON,)

    metadata: SlinkyPodMetadata

    @property
    def in_use(self) -> bool:
        """See `Pod.in_use`. A pod without any state is unknown to Slurm, or the operator cannot ask it."""
        states = self.status.slurm_states
        drained = "Drain" in states and "Undrain" not in states
        return bool(states) and (not drained or bool(states & _BUSY))

    @property
    def counts_as_replica(self) -> bool:
        """Every existing pod counts: its ordinal becomes free, and it is replaced, only once it is gone."""
        return True


@dataclass(frozen=True, slots=True, config=CONFIG)
class SoperatorPodMetadata(PodMetadata):
    """Metadata of a worker pod."""

    labels: Annotated[dict[str, str], interned_items(SOPERATOR_POD_NODESET)] = Field(default_factory=dict)


class SoperatorPod(Pod):
    """A worker."""

    metadata: SoperatorPodMetadata


class SoperatorNodeSetSpec(DeploymentSpec):
    """`replicas` is the number of nodes in its slurm.conf: the maximum number of workers."""

    ephemeral_nodes: bool = False


class SoperatorNodeSet(Deployment):
    """A NodeSet of Soperator, with the workers of one shape: as many as its NodeSetPowerState has active nodes."""

    stateful: ClassVar[bool] = True

    spec: SoperatorNodeSetSpec = SoperatorNodeSetSpec()

    @property
    def unscalable(self) -> str:
        """See `Deployment.unscalable`."""
        return (
            "" if self.spec.ephemeral_nodes else "all nodes of the NodeSet always run: set spec.ephemeralNodes to true"
        )

    def ordinal(self, worker: WorkerName) -> int | None:
        """Returns the ordinal of a worker, or None when it is not a worker of this NodeSet."""
        ordinal = worker.removeprefix(f"{self.name}-")
        return int(ordinal) if worker != ordinal and ordinal.isdecimal() and str(int(ordinal)) == ordinal else None


class PowerStateSpec(Resource):
    """The nodes of a NodeSet that run."""

    active_nodes: NullableList[int] = ()


class PowerState(Object):
    """A NodeSetPowerState. Soperator creates one for each ephemeral NodeSet, with the same name."""

    spec: PowerStateSpec = PowerStateSpec()
