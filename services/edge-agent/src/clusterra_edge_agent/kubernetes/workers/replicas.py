"""How the replicas of one Deployment become what is desired without losing any worker but the victims. Pure.

A ReplicaSet that has too many pods deletes the least useful first: unassigned ones, then pending ones, then those that
are not ready, then those of the lowest deletion cost (`ActivePodsWithRanks` of its controller). Marking the victims is
not enough: while another pod is pending or not ready, that one goes and a marked one stays. Hence:

- Replicas are only lowered when, whatever the ReplicaSet makes of equals, it deletes no worker but victims. A pod that
  has never started is no worker yet: Slurm cannot know it.
- They are only lowered while its controller sees what we see: it counts the same pods (`settled`), and there was no
  trouble with the API server lately (`calm`), after which its copy of the pods can be older than ours for a while and
  show neither a mark nor that a worker has started. Where the API server refuses to delete a started worker without
  the mark (`guarded`), an old copy can do no more than delete pods that have not started, and is not waited for. Nor
  are the marks, where all pods have started and none has an older mark: none can be deleted before it has its own.
- Victims that it would not delete then are deleted by name. What the ReplicaSet makes in their place is surplus, and
  goes, before it has started, with the lower replicas that follow.
- Nothing is deleted by name while that copy may be old, `guarded` or not: a pod that goes before it was in the copy is
  waited for, and no other pod is made meanwhile. What the ReplicaSet itself deletes has been in its copy.
- Replicas that would end another worker, because somebody else lowered them or because a pod has become not ready since
  we did, are raised again at once. What is left is the gap until the ReplicaSet has looked, some milliseconds.

A NodeSet of Slinky is alike and `stateful`: it goes by the same, then by the jobs' deadline, its own cordon and the
ordinal. But it counts every pod that still exists, terminating and failed ones too, and gives a pod's name to the next
one, so that a victim that is deleted by name may come back under it. Hence:

- What is going anyway is marked like a victim, so that it is what lower replicas end.
- A victim that must be replaced goes after its replacement has been made: replicas are raised first, then lowered.
- Pods that have not started are not lost to a victim either: what comes in their place may have the victim's name.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from clusterra_contracts.identity import WorkerName

from clusterra_edge_agent.kubernetes.client.resources import Deployment, Pod

VICTIM_COST = -1000
"""The policy `slurmd-pods` of k8s/edge lets a worker that has started be deleted only with this mark."""
SURPLUS_COST = -500
"""Never started and not wanted any more. Should it start before the ReplicaSet looks, the policy keeps it, and the next
plan takes it back; where there is no policy, it goes before others."""

type _Rank = tuple[bool, int, bool, int]
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps for one Deployment, to be done in the order of the fields."""

    costs: dict[WorkerName, int] = field(default_factory=dict)
    """Pods whose deletion cost must change; 0 takes the mark away."""
    raise_to: int | None = None
    """Replicas to be set, whatever became of the Deployment meanwhile: jobs wait for them."""
    deletions: tuple[WorkerName, ...] = ()
    """Victims to be deleted by name."""
    lower_to: int | None = None
    """Replicas to be set only if the Deployment is still as it was seen. Together with `costs` only where the policy
    keeps what these do not mark yet: then in any order, at the same time."""
    unsettled: bool = False
    """Something is left to do once the ReplicaSet sees what we see."""


def plan(
    deployment: Deployment,
    pods: Sequence[Pod],
    desired: int,
    victims: Collection[WorkerName],
    *,
    calm: bool,
    guarded: bool = False,
) -> Plan:
    """From a Deployment and all its `pods` to `desired` workers without the `victims`."""
    replicas = deployment.spec.replicas
    active = [pod for pod in pods if pod.counted]
    leaving = [pod for pod in active if pod.name in victims or not pod.active]
    staying = [pod for pod in active if pod.name not in victims and pod.active]
    surplus = _surplus(staying, desired)
    goal = max(desired, len(staying) - len(surplus))

    costs = {pod.name: VICTIM_COST for pod in leaving} | {pod.name: SURPLUS_COST for pod in surplus}
    changed = {pod.name: costs.get(pod.name, 0) for pod in active if pod.cost != costs.get(pod.name, 0)}
    names = {pod.name for pod in leaving if pod.active}
    workers = {pod.name for pod in staying if pod.started}
    kept = {pod.name for pod in staying if pod not in surplus} if deployment.stateful else workers

    being_deleted = _deleted(active, {pod.name: pod.cost for pod in active}, len(active) - replicas)
    if workers & being_deleted.possibly:
        return Plan(costs=changed, raise_to=max(goal, len(active)))
    remaining = names - being_deleted.surely
    if deployment.stateful and (goal >= replicas or len(active) < replicas):
        wanted = goal + len(remaining)
        raise_to = wanted if wanted > replicas else None
        return Plan(costs=changed, raise_to=raise_to, unsettled=bool(remaining) or goal < replicas)
    if goal >= replicas:
        raise_to = goal if goal > replicas else None
        return _deleting(remaining, Plan(costs=changed, raise_to=raise_to), calm=calm)
    deleted = _deleted(active, costs, len(active) - goal)
    if not names <= deleted.surely:
        return _deleting(names, Plan(costs=changed), calm=calm)
    if kept & deleted.possibly or not (guarded or (calm and settled(deployment, active))):
        return Plan(costs=changed, unsettled=True)
    if changed and not (guarded and not deployment.stateful and all(pod.started and pod.cost == 0 for pod in active)):
        # A pod may have changed while it was marked: its answer tells.
        return Plan(costs=changed, unsettled=True)
    return Plan(costs=changed, lower_to=goal)


def _deleting(names: Collection[WorkerName], step: Plan, *, calm: bool) -> Plan:
    """The step, and the deletion of these by name, now or later."""
    return replace(step, deletions=tuple(names)) if calm else replace(step, unsettled=bool(names))


def settled(deployment: Deployment, active: Sequence[Pod]) -> bool:
    """Whether the controllers have looked at the Deployment's last change and count the same pods as we do.

    Pods that are still to be made may exist already, and even serve, before anybody tells of them.
    """
    status = deployment.status
    return (
        (len(active) >= deployment.spec.replicas or status.refused)
        and status.observed_generation >= deployment.metadata.generation
        and status.replicas == len(active)
        and status.ready_replicas == sum(pod.ready for pod in active)
    )


def _surplus(staying: Sequence[Pod], desired: int) -> list[Pod]:
    """Pods beyond the desired ones that have never started, as far as there are any; the newest first."""
    unstarted = sorted((pod for pod in staying if not pod.started), key=lambda pod: pod.created_at, reverse=True)
    return unstarted[: max(len(staying) - desired, 0)]


@dataclass(frozen=True, slots=True)
class _Deleted:
    surely: set[WorkerName]
    possibly: set[WorkerName]


def _deleted(active: Sequence[Pod], costs: dict[WorkerName, int], count: int) -> _Deleted:
    """What a ReplicaSet deletes of these when it has `count` too many, once the costs are set.

    What it goes by among equals (how many share a node, which is younger, which has restarted more) is left open.
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
    return _Deleted(surely, possibly)
