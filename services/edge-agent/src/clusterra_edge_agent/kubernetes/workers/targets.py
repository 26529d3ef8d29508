"""Where the workers of a shape are: in a Deployment of ours, or in a NodeSet that another operator has made."""

from collections.abc import Callable
from dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client import nodesets
from clusterra_edge_agent.kubernetes.client.api import Collection
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Deployment, Pod


@dataclass(frozen=True, slots=True)
class Target:
    """What to follow for one namespace."""

    owners: Collection[Deployment]
    """Each with the label of the shape whose workers it has."""
    pods: Collection[Pod]
    owner_label: str | None
    """The label by which a pod names its owner; None when the pods have the label of the shape themselves."""

    @property
    def stateful(self) -> bool:
        """See `Deployment.stateful`."""
        return self.owners.model.stateful

    def owner_of(self, pod: Pod) -> str | None:
        """The name of a pod's owner, if the pod names it."""
        return pod.metadata.labels.get(self.owner_label) if self.owner_label else None


type TargetOf = Callable[[str], Target]
"""The target in a namespace."""


def deployments(namespace: str) -> Target:
    """Deployments as k8s/edge has them."""
    return Target(Collection.deployments(namespace, SHAPE_LABEL), Collection.pods(namespace, SHAPE_LABEL), None)


def slinky(namespace: str) -> Target:
    """NodeSets of Slinky's slurm-operator. It gives a template's labels to pods, but the shape's is on the NodeSet."""
    path = f"/apis/{nodesets.SLINKY_GROUP}/namespaces/{namespace}/nodesets"
    return Target(
        Collection(path, SHAPE_LABEL, nodesets.SlinkyNodeSet),
        Collection(_pods(namespace), nodesets.SLINKY_POD, nodesets.SlinkyPod),
        nodesets.SLINKY_POD_NODESET,
    )


def soperator(namespace: str) -> Target:
    """NodeSets of Soperator; `power_states` says which of their nodes run."""
    path = f"/apis/{nodesets.SOPERATOR_GROUP}/namespaces/{namespace}/nodesets"
    return Target(
        Collection(path, SHAPE_LABEL, nodesets.SoperatorNodeSet),
        Collection(_pods(namespace), nodesets.SOPERATOR_POD, nodesets.SoperatorPod),
        nodesets.SOPERATOR_POD_NODESET,
    )


def power_states(namespace: str) -> Collection[nodesets.PowerState]:
    """The NodeSetPowerState of each ephemeral NodeSet of Soperator."""
    path = f"/apis/{nodesets.SOPERATOR_GROUP}/namespaces/{namespace}/nodesetpowerstates"
    return Collection(path, "", nodesets.PowerState)


def _pods(namespace: str) -> str:
    return Collection.pods(namespace, "").path
