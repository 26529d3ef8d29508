"""What we read of the NodeSets of two other operators, as their releases 1.2 (Slinky) and 5.0 (Soperator) define them.

Both name a pod by its NodeSet and an ordinal, and Slurm's node as the pod; both keep a pod's ordinal for its successor.
"""

from typing import Annotated, ClassVar, Literal

from clusterra_contracts.identity import WorkerName
from pydantic import Field
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client.interning import CONFIG, Many, kept
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

SOPERATOR_GROUP = "slurm.nebius.ai/v1alpha1"
SOPERATOR_POD = "slurm.nebius.ai/worker=true"
SOPERATOR_POD_NODESET = "slurm.nebius.ai/nodeset"


class SlinkyPodSpec(PodTemplateSpec):
    """What of the pods' template decides how Slurm's node is called."""

    hostname: str = ""
    host_network: bool = False


class SlinkyTemplate(PodTemplate):
    """The pods' template."""

    spec: SlinkyPodSpec = SlinkyPodSpec()


class SlinkyNodeSetSpec(DeploymentSpec):
    """How many pods there should be, and how they are called."""

    scaling_mode: Literal["StatefulSet", "DaemonSet"] = "StatefulSet"
    template: SlinkyTemplate = SlinkyTemplate()


class SlinkyNodeSet(Deployment):
    """The workers of one shape."""

    stateful: ClassVar[bool] = True

    spec: SlinkyNodeSetSpec = SlinkyNodeSetSpec()

    @property
    def unscalable(self) -> str:
        """See `Deployment.unscalable`."""
        pod = self.spec.template.spec
        if self.spec.scaling_mode == "DaemonSet":
            return "it has a pod on each node: set spec.scalingMode to StatefulSet"
        if pod.hostname or pod.host_network:
            return "Slurm's nodes are not called as its pods: leave spec.template.spec.hostname and hostNetwork out"
        return ""


@dataclass(frozen=True, slots=True, config=CONFIG)
class SlinkyPodMetadata(PodMetadata):
    """Of a worker."""

    labels: Annotated[dict[str, str], kept(SLINKY_POD_NODESET)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], kept(SLINKY_DELETION_COST)] = Field(default_factory=dict)


class SlinkyPod(Pod):
    """A worker. Of pods that are equally far, the operator drains and deletes those of the lowest cost first."""

    cost_annotation: ClassVar[str] = SLINKY_DELETION_COST

    metadata: SlinkyPodMetadata

    @property
    def counted(self) -> bool:
        """Any pod that exists: its ordinal is free, and it is replaced, once it is gone."""
        return True


@dataclass(frozen=True, slots=True, config=CONFIG)
class SoperatorPodMetadata(PodMetadata):
    """Of a worker."""

    labels: Annotated[dict[str, str], kept(SOPERATOR_POD_NODESET)] = Field(default_factory=dict)


class SoperatorPod(Pod):
    """A worker."""

    metadata: SoperatorPodMetadata


class SoperatorNodeSetSpec(DeploymentSpec):
    """`replicas` is how many nodes its slurm.conf names: the most workers there can be."""

    ephemeral_nodes: bool = False


class SoperatorNodeSet(Deployment):
    """The workers of one shape, as many as its NodeSetPowerState has active nodes."""

    stateful: ClassVar[bool] = True

    spec: SoperatorNodeSetSpec = SoperatorNodeSetSpec()

    @property
    def unscalable(self) -> str:
        """See `Deployment.unscalable`."""
        return "" if self.spec.ephemeral_nodes else "all its nodes always run: set spec.ephemeralNodes to true"

    def ordinal(self, worker: WorkerName) -> int | None:
        """Which of its nodes a worker is; None when it is none of them."""
        ordinal = worker.removeprefix(f"{self.name}-")
        return int(ordinal) if worker != ordinal and ordinal.isdecimal() and str(int(ordinal)) == ordinal else None


class PowerStateSpec(Resource):
    """Which nodes of a NodeSet run."""

    active_nodes: Many[int] = ()


class PowerState(Object):
    """Soperator's NodeSetPowerState, which it makes for each ephemeral NodeSet, of the same name."""

    spec: PowerStateSpec = PowerStateSpec()
