"""Plans how the replicas of one Deployment become the desired ones without losing any worker but the victims. Pure.

A ReplicaSet with too many pods deletes them in a fixed order (`ActivePodsWithRanks` of its controller): first pods
without a node, then pending pods, then pods that are not ready, then those with the lowest deletion cost. So it is not
enough to mark the victims with a low cost (their "mark"): if another pod is pending or not ready, the ReplicaSet
deletes that pod and keeps a marked one.

When replicas are lowered:

- The ReplicaSet must then delete no worker but victims, however it breaks ties. A pod that has never started is not a
  worker yet: Slurm cannot know it.
- The controller must see the same pods as we do: it counts as many (`settled`), and the API server had no recent outage
  (`caches_fresh`). After an outage, the controller's copy of the pods may be older than ours for a while. An old copy
  may lack a mark, or show a started worker as not started.
- Neither is required where the API server denies the deletion of started workers without the mark (`policy_enforced`).
  There, a stale copy can only cause the deletion of pods that have not started. The marks and the lower replicas may
  then be sent together, if all pods have started and none has an older mark: until a pod has its mark, the policy
  protects it.
- Replicas that would end another worker are raised again at once. This happens when somebody else lowered them, or when
  a pod became unready after we lowered them. Until then the ReplicaSet has some milliseconds to react.

When pods are deleted by name:

- These are victims that the ReplicaSet would not delete. It creates a pod in place of each. That pod is surplus, and is
  deleted before it starts, when the replicas are lowered next.
- Nothing is deleted by name while the controller's copy may be stale, whether or not the policy is enforced. If a pod
  is deleted before it appears in the copy, the controller waits for it and creates no other pod. This cannot happen
  with pods that the ReplicaSet itself deletes, because they were in its copy.

A NodeSet of Slinky is similar but `stateful`. It uses the same order, and breaks ties by the jobs' deadline, its own
cordon and the ordinal. It counts every existing pod, also terminating and failed ones, and it gives a pod's name to the
next one. So a victim that is deleted by name may come back under that name. Therefore:

- Terminating and failed pods are marked like victims, so that lower replicas end them.
- A victim that must be replaced is removed after its replacement is created: replicas are raised first, then lowered.
- Pods that have not started are protected too, because a pod created in their place may get the victim's name.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.kubernetes.client.resources import Deployment, Pod

VICTIM_COST = -1000
"""The policy `slurmd-pods` of k8s/edge permits the deletion of a started worker only with this mark."""
SURPLUS_COST = -500
"""For a pod that has never started and is no longer wanted. If it starts before the ReplicaSet acts, the policy
protects it and the next plan removes the mark. Without the policy it is deleted before others."""

type _Rank = tuple[bool, int, bool, int]
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps for one Deployment, to be executed in the order of the fields."""

    costs: dict[WorkerName, int] = field(default_factory=dict)
    """Pods whose deletion cost must change; 0 removes the mark."""
    raise_to: int | None = None
    """Replicas to set unconditionally, because jobs wait for them."""
    deletions: tuple[WorkerName, ...] = ()
    """Victims to delete by name."""
    lower_to: int | None = None
    """Replicas to set only if the Deployment is unchanged. Combined with `costs` only where the policy protects pods
    that are not marked yet: then the calls may run in any order, concurrently."""
    unsettled: bool = False
    """Whether something is left to do once the ReplicaSet sees what we see."""


def plan(
    deployment: Deployment,
    pods: Sequence[Pod],
    desired: int,
    victims: Collection[WorkerName],
    *,
    caches_fresh: bool,
    policy_enforced: bool = False,
) -> Plan:
    """Returns the steps from a Deployment and all its `pods` to `desired` workers without the `victims`."""
    replicas = deployment.spec.replicas
    active = [pod for pod in pods if pod.counts_as_replica]
    leaving = [pod for pod in active if pod.name in victims or not pod.active]
    staying = [pod for pod in active if pod.name not in victims and pod.active]
    surplus = _surplus(staying, desired)
    goal = max(desired, len(staying) - len(surplus))

    costs = {pod.name: VICTIM_COST for pod in leaving} | {pod.name: SURPLUS_COST for pod in surplus}
    changed = {pod.name: costs.get(pod.name, 0) for pod in active if pod.cost != costs.get(pod.name, 0)}
    active_victims = {pod.name for pod in leaving if pod.active}
    workers = {pod.name for pod in staying if pod.started}
    protected = {pod.name for pod in staying if pod not in surplus} if deployment.stateful else workers

    being_deleted = _predicted_deletions(active, {pod.name: pod.cost for pod in active}, len(active) - replicas)
    if workers & being_deleted.possible:
        return Plan(costs=changed, raise_to=max(goal, len(active)))
    remaining = active_victims - being_deleted.certain
    if deployment.stateful and (goal >= replicas or len(active) < replicas):
        wanted = goal + len(remaining)
        raise_to = wanted if wanted > replicas else None
        return Plan(costs=changed, raise_to=raise_to, unsettled=bool(remaining) or goal < replicas)
    if goal >= replicas:
        raise_to = goal if goal > replicas else None
        return _with_deletions(remaining, Plan(costs=changed, raise_to=raise_to), caches_fresh=caches_fresh)
    deleted = _predicted_deletions(active, costs, len(active) - goal)
    if not active_victims <= deleted.certain:
        return _with_deletions(active_victims, Plan(costs=changed), caches_fresh=caches_fresh)
    if protected & deleted.possible or not (policy_enforced or (caches_fresh and settled(deployment, active))):
        return Plan(costs=changed, unsettled=True)
    if changed and not (
        policy_enforced and not deployment.stateful and all(pod.started and pod.cost == 0 for pod in active)
    ):
        # A pod may have changed while it was marked; the answers show it.
        return Plan(costs=changed, unsettled=True)
    return Plan(costs=changed, lower_to=goal)


def _with_deletions(names: Collection[WorkerName], step: Plan, *, caches_fresh: bool) -> Plan:
    """Adds the deletion of these pods by name: now if the caches are fresh, else later."""
    return replace(step, deletions=tuple(names)) if caches_fresh else replace(step, unsettled=bool(names))


def settled(deployment: Deployment, active: Sequence[Pod]) -> bool:
    """Whether the controllers have processed the Deployment's last change and count the same pods as we do.

    Pods that are not observed yet may already exist, and even serve.
    """
    status = deployment.status
    return (
        (len(active) >= deployment.spec.replicas or status.has_replica_failure)
        and status.observed_generation >= deployment.metadata.generation
        and status.replicas == len(active)
        and status.ready_replicas == sum(pod.ready for pod in active)
    )


def _surplus(staying: Sequence[Pod], desired: int) -> list[Pod]:
    """Returns the pods beyond the desired number that have never started, newest first."""
    unstarted = sorted((pod for pod in staying if not pod.started), key=lambda pod: pod.created_at, reverse=True)
    return unstarted[: max(len(staying) - desired, 0)]


@dataclass(frozen=True, slots=True)
class _Deletions:
    certain: set[WorkerName]
    possible: set[WorkerName]


def _predicted_deletions(active: Sequence[Pod], costs: dict[WorkerName, int], count: int) -> _Deletions:
    """Returns which pods a ReplicaSet deletes when it has `count` too many, once the costs are set.

    How it breaks further ties (pods per node, age, restarts) is left open.
    """
    ranked = defaultdict[_Rank, list[WorkerName]](list)
    for pod in active:
        phase = _PHASES.get(pod.status.phase, 0)
        ranked[bool(pod.spec.node_name), phase, pod.ready, costs.get(pod.name, 0)].append(pod.name)
    surely, possibly, before = set[WorkerName](), set[WorkerName](), 0
    for _, equals in sorted(ranked.items()):
        if before < count:
            possibly.update(equals)
        before += len(equals)
        if before <= count:
            surely.update(equals)
    return _Deletions(surely, possibly)
