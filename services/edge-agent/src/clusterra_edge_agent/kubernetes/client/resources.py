"""What we read of the API server's answers: pods, Deployments, lists and watch events."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from clusterra_contracts.heartbeat import WorkerPhase
from clusterra_contracts.identity import ShapeName
from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client.interning import (
    CONFIG,
    Condition,
    Many,
    Metadata,
    PodSpec,
    PodStatus,
    Shared,
    kept,
)
from clusterra_edge_agent.kubernetes.client.misclassification import Misclassification

SHAPE_LABEL = "clusterra.io/shape"
"""On the Deployment of each shape, its selector and its pods."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Of pods that are equally far, a ReplicaSet deletes those of the lowest cost first; without one it is 0."""

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
"""kubelet's reasons why a container has no image."""

_FAILURES = IMAGE_FAILURES | {"CrashLoopBackOff"}
_CREATE_FAILURES = ("CreateContainer", "RunContainer")


class Resource(BaseModel):
    """A part of an answer; the API server leaves out what is empty."""

    model_config = ConfigDict(**CONFIG, frozen=True)


@dataclass(frozen=True, slots=True, config=CONFIG)
class PodMetadata(Metadata):
    """Of a worker."""

    labels: Annotated[dict[str, str], kept(SHAPE_LABEL)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], kept(DELETION_COST)] = Field(default_factory=dict)


class Object(Resource):
    """Anything that can be listed and watched."""

    metadata: Metadata

    @property
    def name(self) -> str:
        """Its name in its namespace."""
        return self.metadata.name

    @property
    def shape(self) -> ShapeName | None:
        """The worker shape it belongs to."""
        return self.metadata.labels.get(SHAPE_LABEL)


class Pod(Object):
    """A worker."""

    cost_annotation: ClassVar[str] = DELETION_COST

    metadata: PodMetadata
    spec: Shared[PodSpec] = PodSpec()
    status: Shared[PodStatus] = PodStatus()

    @property
    def terminating(self) -> bool:
        """Whether its deletion has been accepted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def over(self) -> bool:
        """Whether its containers have ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Whether it runs or will run, and nobody has ended it."""
        return not self.terminating and not self.over

    @property
    def counted(self) -> bool:
        """Whether its controller counts it among the replicas that there are: a ReplicaSet does if it is active."""
        return self.active

    @property
    def started(self) -> bool:
        """Whether a container of it has ever run: one that has not cannot have registered with Slurm."""
        return self.status.phase != "Pending"

    @property
    def ready(self) -> bool:
        """Whether its slurmd serves."""
        return self.status.ready

    @property
    def cost(self) -> int:
        """Its deletion cost. One that cannot be read is none, as for its controller."""
        try:
            return int(self.metadata.annotations.get(self.cost_annotation, "0"))
        except ValueError:
            return 0

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        assert self.metadata.creation_timestamp is not None  # noqa: S101 - the API server sets it
        return self.metadata.creation_timestamp

    @property
    def worker_phase(self) -> WorkerPhase:
        """As heartbeats show it."""
        if self.over:
            return "failed"
        if self.terminating:
            return "terminating"
        return "running" if self.ready else "booting"

    @property
    def misclassification(self) -> Misclassification | None:
        """Why its slurmd has refused to register, if it has."""
        for container in self.status.container_statuses:
            for state in (container.state, container.last_state):
                if state and state.terminated and (found := state.terminated.misclassification):
                    return found
        return None

    @property
    def reason(self) -> str:
        """Why it failed or does not run yet, as far as Kubernetes says; empty when nothing is wrong."""
        if self.over:
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
    """Which nodes the pods can run on."""

    node_selector: dict[str, str] = Field(default_factory=dict)


class PodTemplate(Resource):
    """What the pods are made from."""

    spec: PodTemplateSpec = PodTemplateSpec()


class DeploymentSpec(Resource):
    """How many pods there should be, and what they are."""

    replicas: int = 1
    template: PodTemplate = PodTemplate()


class DeploymentStatus(Resource):
    """What its controllers have seen, of the pods that they count."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    conditions: Many[Condition] = ()

    @property
    def refused(self) -> bool:
        """Whether its ReplicaSet may not make the pods that are missing, because of a quota for instance."""
        return bool(self.refusal)

    @property
    def refusal(self) -> str:
        """Why its ReplicaSet may not make the pods that are missing; empty when it may."""
        failures = (each for each in self.conditions if each.type == "ReplicaFailure" and each.status == "True")
        return next((f"{each.reason}: {each.message}" for each in failures), "")


class Deployment(Object):
    """The workers of one shape."""

    stateful: ClassVar[bool] = False
    """Whether a pod's successor gets its name, and its controller itself replaces pods that are over."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def unscalable(self) -> str:
        """Why its workers cannot be scaled, and what to do; empty when they can."""
        return ""


class Scale(Object):
    """The scale subresource: it has the resource version of the Deployment or NodeSet itself."""

    spec: DeploymentSpec = DeploymentSpec()


class ListMetadata(Resource):
    """Where a list ends, or goes on."""

    resource_version: str = ""
    continue_: Annotated[str, Field(alias="continue")] = ""


class Page[O: Object](Resource):
    """A part of a list."""

    metadata: ListMetadata
    items: Many[O]


class Status(Resource):
    """An error, as an answer or in a watch."""

    code: int = 0
    reason: str = ""
    message: str = ""


class WatchEvent[O: Object](Resource):
    """A line of a watch that is no error."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: O


class WatchError(Resource):
    """A line of a watch that ends it."""

    type: Literal["ERROR"]
    object: Status
