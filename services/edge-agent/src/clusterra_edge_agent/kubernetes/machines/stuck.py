"""Why workers of a shape do not start, as far as Kubernetes and Karpenter say. Pure."""

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
    """What keeps each shape, a line for each cause.

    A pod without a node lacks capacity until a machine for it has been bought: from then on it only boots. So those of
    a shape are counted less the machines on their way that may serve it.
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
            served = [claim for claim in claims or () if claim.may_serve(selector)]
            count = len(lacking) - sum(claim.on_its_way for claim in served)
            if count > 0:
                message = next((claim.lack for claim in served if claim.lack), lacking[0].reason)
                yield Stuck(shape=shape, cause="insufficient_capacity", workers=count, message=message)
        for cause, some in sorted(waiting.items()):
            yield Stuck(shape=shape, cause=cause, workers=len(some), message=some[0].reason)
        if deployment and (refusal := deployment.status.refusal):
            quota: StuckCause = "quota" if "quota" in refusal else "other"
            yield Stuck(shape=shape, cause=quota, workers=0, message=refusal)


def cause_of(pod: Pod) -> StuckCause | None:
    """Why a worker does not start; None for one that serves, is over or only takes its time."""
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
