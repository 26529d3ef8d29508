"""Models of the API server's answers: pods, Deployments, lists and watch events."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from clusterra_contracts.heartbeat import WorkerPhase
from clusterra_contracts.identity import ShapeName
from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client.interning import (
    CONFIG,
    Condition,
    Interned,
    Metadata,
    NullableList,
    PodSpec,
    PodStatus,
    interned_items,
)
from clusterra_edge_agent.kubernetes.client.misclassification import Misclassification

SHAPE_LABEL = "clusterra.io/shape"
"""Label of each shape's Deployment, its selector and its pods."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Among pods in the same phase, a ReplicaSet deletes those with the lowest cost first. The default is 0."""

IMAGE_FAILURES = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""kubelet's reasons for a container without an image."""

_FAILURES = IMAGE_FAILURES | {"CrashLoopBackOff"}
_CREATE_FAILURES = ("CreateContainer", "RunContainer")


class Resource(BaseModel):
    """Part of an answer. The API server omits empty fields."""

    model_config = ConfigDict(**CONFIG, frozen=True)


@dataclass(frozen=True, slots=True, config=CONFIG)
class PodMetadata(Metadata):
    """Metadata of a worker pod."""

    labels: Annotated[dict[str, str], interned_items(SHAPE_LABEL)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], interned_items(DELETION_COST)] = Field(default_factory=dict)


class Object(Resource):
    """Any object that can be listed and watched."""

    metadata: Metadata

    @property
    def name(self) -> str:
        """Its name in its namespace."""
        return self.metadata.name

    @property
    def shape(self) -> ShapeName | None:
        """The shape of its workers."""
        return self.metadata.labels.get(SHAPE_LABEL)


class PodNetwork(Resource):
    """The part of a pod's status that no two pods share. It is read when it is needed, and not kept of thousands."""

    pod_ip: Annotated[str | None, Field(alias="podIP")] = None


class PodAddress(Object):
    """A worker with its address."""

    status: PodNetwork = PodNetwork()


class Pod(Object):
    """A worker."""

    cost_annotation: ClassVar[str] = DELETION_COST
    leftover_annotations: ClassVar[tuple[str, ...]] = ()
    """What its controller may leave on a pod that was marked. They are removed with the mark."""

    metadata: PodMetadata
    spec: Interned[PodSpec] = PodSpec()
    status: Interned[PodStatus] = PodStatus()

    @property
    def terminating(self) -> bool:
        """Whether its deletion has been accepted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ended(self) -> bool:
        """Whether its containers have ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Whether it runs or will run: it has neither ended nor been deleted."""
        return not self.terminating and not self.ended

    @property
    def counts_as_replica(self) -> bool:
        """Whether its controller counts it as a replica. A ReplicaSet counts active pods."""
        return self.active

    @property
    def started(self) -> bool:
        """Whether any of its containers has ever run. A pod that never started cannot have registered with Slurm."""
        return self.status.phase != "Pending"

    @property
    def ready(self) -> bool:
        """Whether its slurmd serves."""
        return self.status.ready

    @property
    def cost(self) -> int:
        """Its deletion cost. An unreadable one counts as 0, as its controller sees it."""
        try:
            return int(self.metadata.annotations.get(self.cost_annotation, "0"))
        except ValueError:
            return 0

    @property
    def in_use(self) -> bool:
        """Whether its controller shows that its node in Slurm is not drained, or busy. It must not be removed then."""
        return False

    @property
    def created_at(self) -> datetime:
        """When it was created."""
        assert self.metadata.creation_timestamp is not None  # noqa: S101 - the API server sets it
        return self.metadata.creation_timestamp

    @property
    def worker_phase(self) -> WorkerPhase:
        """The phase that heartbeats show."""
        if self.ended:
            return "failed"
        if self.terminating:
            return "terminating"
        return "running" if self.ready else "booting"

    @property
    def misclassification(self) -> Misclassification | None:
        """Why its slurmd was not started, if its machine does not have what the shape promises."""
        for container in self.status.container_statuses:
            for state in (container.state, container.last_state):
                if state and state.terminated and (found := state.terminated.misclassification):
                    return found
        return None

    @property
    def reason(self) -> str:
        """Why it failed or is not running yet, as far as Kubernetes knows; empty when nothing is wrong."""
        if self.ended:
            return f"{self.status.reason or self.status.phase}: {self.status.message}".removesuffix(": ")
        for condition in self.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                return f"{condition.reason}: {condition.message}".removesuffix(": ")
        if not self.ready and (size := self.misclassification):
            return f"Misclassified: {size}"
        for container in self.status.container_statuses:
            waiting = container.state.waiting
            if waiting and (waiting.reason in _FAILURES or waiting.reason.startswith(_CREATE_FAILURES)):
                return f"{waiting.reason}: {waiting.message}".removesuffix(": ")
        return ""


class PodTemplateSpec(Resource):
    """The nodes that the pods can run on."""

    node_selector: dict[str, str] = Field(default_factory=dict)


class PodTemplate(Resource):
    """The pod template."""

    spec: PodTemplateSpec = PodTemplateSpec()


class DeploymentSpec(Resource):
    """The desired number of pods, and their template."""

    replicas: int = 1
    template: PodTemplate = PodTemplate()


class DeploymentStatus(Resource):
    """What the controllers last observed."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    conditions: NullableList[Condition] = ()

    @property
    def has_replica_failure(self) -> bool:
        """Whether the ReplicaSet cannot create its missing pods, for example because of a quota."""
        return bool(self.replica_failure)

    @property
    def replica_failure(self) -> str:
        """Why the ReplicaSet cannot create its missing pods; empty when it can."""
        failures = (each for each in self.conditions if each.type == "ReplicaFailure" and each.status == "True")
        return next((f"{each.reason}: {each.message}" for each in failures), "")


class Deployment(Object):
    """A Deployment, with the workers of one shape."""

    stateful: ClassVar[bool] = False
    """Whether a pod's successor gets the same name, and the controller itself replaces pods that have ended."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def unscalable(self) -> str:
        """Why its workers cannot be scaled, and how to fix it; empty when they can."""
        return ""


class Scale(Object):
    """The scale subresource. Its resource version is that of the Deployment or NodeSet itself."""

    spec: DeploymentSpec = DeploymentSpec()


class ListMetadata(Resource):
    """The version of a list, and the token of its next page."""

    resource_version: str = ""
    continue_: Annotated[str, Field(alias="continue")] = ""


class Page[O: Object](Resource):
    """A page of a list."""

    metadata: ListMetadata
    items: NullableList[O]


class Status(Resource):
    """An error, from an answer or a watch."""

    code: int = 0
    reason: str = ""
    message: str = ""


class WatchEvent[O: Object](Resource):
    """A line of a watch other than an error."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: O


class WatchError(Resource):
    """The error that ends a watch."""

    type: Literal["ERROR"]
    object: Status
