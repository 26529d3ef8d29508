"""Explains why workers of a shape do not start, as far as Kubernetes and Karpenter know. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from clusterra_contracts.heartbeat import Stuck, StuckCause
from clusterra_contracts.identity import ShapeName, WorkerName

from clusterra_edge_agent.kubernetes.client.resources import IMAGE_FAILURES, Deployment, Pod
from clusterra_edge_agent.kubernetes.machines.resources import NodeClaim


def stuck(
    pods: Mapping[ShapeName, Mapping[WorkerName, Pod]],
    deployments: Iterable[Deployment],
    claims: Collection[NodeClaim] | None,
) -> Iterator[Stuck]:
    """Yields what blocks each shape, one entry per cause.

    A pod without a node lacks capacity until a machine has been bought for it; from then on it is booting. So the
    number of such pods of a shape is reduced by the booting machines that match the shape.
    """
    by_shape = {deployment.shape: deployment for deployment in deployments if deployment.shape}
    for shape in sorted(pods.keys() | by_shape.keys()):
        deployment = by_shape.get(shape)
        waiting: defaultdict[StuckCause, list[Pod]] = defaultdict(list)
        for pod in pods.get(shape, {}).values():
            if cause := cause_of(pod):
                waiting[cause].append(pod)
        if lacking := waiting.pop("insufficient_capacity", None):
            selector = deployment.spec.template.spec.node_selector if deployment else {}
            served = [claim for claim in claims or () if claim.may_match(selector)]
            count = len(lacking) - sum(claim.is_booting for claim in served)
            if count > 0:
                message = next((claim.capacity_error for claim in served if claim.capacity_error), lacking[0].reason)
                yield Stuck(shape=shape, cause="insufficient_capacity", workers=count, message=message)
        for cause, some in sorted(waiting.items()):
            yield Stuck(shape=shape, cause=cause, workers=len(some), message=some[0].reason)
        if deployment and (failure := deployment.status.replica_failure):
            quota: StuckCause = "quota" if "quota" in failure else "other"
            yield Stuck(shape=shape, cause=quota, workers=0, message=failure)


def cause_of(pod: Pod) -> StuckCause | None:
    """Returns why a worker does not start, or None if it serves, has ended or is just booting."""
    if not pod.active or pod.ready:
        return None
    reason = pod.reason.partition(":")[0]
    if not reason:
        return None
    if reason == "Unschedulable":
        return "insufficient_capacity"
    if reason in IMAGE_FAILURES:
        return "image_pull"
    return "misclassified" if pod.misclassification else "other"
