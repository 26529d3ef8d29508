"""What owns the workers of a shape: a Deployment of ours, or a NodeSet of another operator."""

from collections.abc import Callable
from dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client import nodesets
from clusterra_edge_agent.kubernetes.client.api import Collection
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Deployment, Pod


@dataclass(frozen=True, slots=True)
class Target:
    """The collections to follow in one namespace."""

    owners: Collection[Deployment]
    """Objects with the label of the shape whose workers they own."""
    pods: Collection[Pod]
    owner_label: str | None
    """The label by which a pod names its owner; None when the pods carry the shape's label themselves."""

    @property
    def stateful(self) -> bool:
        """See `Deployment.stateful`."""
        return self.owners.model.stateful

    def owner_of(self, pod: Pod) -> str | None:
        """Returns the name of a pod's owner, if the pod names it."""
        return pod.metadata.labels.get(self.owner_label) if self.owner_label else None


type TargetFactory = Callable[[str], Target]
"""Returns the target of a namespace."""


def deployments(namespace: str) -> Target:
    """The Deployments of k8s/edge."""
    return Target(Collection.deployments(namespace, SHAPE_LABEL), Collection.pods(namespace, SHAPE_LABEL), None)


def slinky(namespace: str) -> Target:
    """NodeSets of Slinky's slurm-operator. Pods get the template's labels, but the shape's label is on the NodeSet."""
    path = f"/apis/{nodesets.SLINKY_GROUP}/namespaces/{namespace}/nodesets"
    return Target(
        Collection(path, SHAPE_LABEL, nodesets.SlinkyNodeSet),
        Collection(_pods_path(namespace), nodesets.SLINKY_POD, nodesets.SlinkyPod),
        nodesets.SLINKY_POD_NODESET,
    )


def soperator(namespace: str) -> Target:
    """NodeSets of Soperator. `power_states` says which of their nodes run."""
    path = f"/apis/{nodesets.SOPERATOR_GROUP}/namespaces/{namespace}/nodesets"
    return Target(
        Collection(path, SHAPE_LABEL, nodesets.SoperatorNodeSet),
        Collection(_pods_path(namespace), nodesets.SOPERATOR_POD, nodesets.SoperatorPod),
        nodesets.SOPERATOR_POD_NODESET,
    )


def power_states(namespace: str) -> Collection[nodesets.PowerState]:
    """The NodeSetPowerState of each ephemeral NodeSet of Soperator."""
    path = f"/apis/{nodesets.SOPERATOR_GROUP}/namespaces/{namespace}/nodesetpowerstates"
    return Collection(path, "", nodesets.PowerState)


def _pods_path(namespace: str) -> str:
    return Collection.pods(namespace, "").path
