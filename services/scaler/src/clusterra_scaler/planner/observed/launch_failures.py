"""Whether workers of a shape can be had: what the edge says of those that do not start, and which start after all.

A worker is told as stuck from its first moment: in Kubernetes a pod is unschedulable until a machine has been bought
for it. Karpenter gathers pods for up to 10 s, and a launch takes some seconds more. So it is no failure while all that
are stuck may be younger than `LAUNCH_SECONDS`, and none before two heartbeats have told it that are `LASTING_SECONDS`
apart: a machine that is exchanged for another, or a quota that is full for the moment in which a worker leaves, is over
by then.

Where the edge cannot see machines on their way, one that boots looks like one that is not to be had; then that is
waited for which workers of the shape are known to take.

That workers never register is a failure, too, whatever the edge says: the second in a row that is overdue. The first
may be a bad machine.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from clusterra_contracts.heartbeat import Stuck, StuckCause
from clusterra_contracts.identity import ShapeName

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.breakers import Breaker, Failure
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.registration import Registrations

LAUNCH_SECONDS = 20.0
LASTING_SECONDS = 10.0
NEVER_CAME_IN_A_ROW = 2

_WHY: Mapping[StuckCause, str] = {
    "insufficient_capacity": "no capacity for",
    "quota": "a quota leaves no room for",
    "misclassified": "no machine is what it should be for",
}
"""Causes that another shape may not have. An image that cannot be pulled, for one, is that of all shapes."""


def failing_since(
    before: Mapping[ShapeName, datetime], observation: Observation, latency: ProvisioningLatency
) -> Mapping[ShapeName, datetime]:
    """Shapes that the edge says to be stuck, and when that was heard first; without a word nothing changes."""
    edge = observation.edge
    heard_at = edge.listed_at
    if not edge.listed(observation.now) or heard_at is None or edge.stuck is None:
        return before
    return {
        each.shape: before.get(each.shape, heard_at)
        for each in edge.stuck
        if each.cause in _WHY and _too_long(each, edge, heard_at, latency)
    }


def failures(
    observation: Observation,
    since: Mapping[ShapeName, datetime],
    registrations: Registrations,
    breakers: Iterable[Breaker],
) -> Mapping[ShapeName, Failure]:
    """The shapes that fail at the moment of a whole view."""
    heard_at = observation.edge.listed_at
    told = {each.shape: each for each in observation.edge.stuck or () if each.cause in _WHY}
    found = {
        shape: Failure(f"workers of {shape} have never registered")
        for shape in _never_came(observation, registrations, {breaker.shape: breaker for breaker in breakers})
    }
    for shape, first in since.items():
        if shape in told and heard_at is not None and (heard_at - first).total_seconds() >= LASTING_SECONDS:
            found[shape] = Failure(f"{_WHY[told[shape].cause]} {shape}", told[shape].message)
    return found


def started(observation: Observation, breakers: Iterable[Breaker]) -> frozenset[ShapeName]:
    """Shapes of which a worker has registered since they failed.

    One that was started before the opening may have had its machine by then: it counts only once the shape might be
    tried again.
    """
    nodes = {node.name: node for node in observation.snapshot.nodes or () if not node.gone}
    alive = [
        (worker, nodes[worker.name].registered_at or worker.started_at)
        for worker in observation.edge.workers or ()
        if worker.phase in ("booting", "running") and worker.name in nodes
    ]
    return frozenset(
        breaker.shape
        for breaker in breakers
        for worker, registered_at in alive
        if worker.shape == breaker.shape
        and registered_at >= (breaker.failed_at if worker.started_at >= breaker.opened_at else breaker.probe_at)
    )


def stuck_workers(observation: Observation, shape: ShapeName) -> int:
    """How many workers of a shape wait for what is not to be had."""
    return sum(each.workers for each in observation.edge.stuck or () if each.shape == shape and each.cause in _WHY)


def _too_long(stuck: Stuck, edge: Edge, heard_at: datetime, latency: ProvisioningLatency) -> bool:
    launch_seconds = LAUNCH_SECONDS
    if not edge.sees_machines:
        launch_seconds = max(launch_seconds, latency.usual_seconds(stuck.shape))
    ages = [
        (heard_at - worker.started_at).total_seconds()
        for worker in edge.workers or ()
        if worker.phase == "booting" and worker.shape == stuck.shape
    ]
    return stuck.workers == 0 or stuck.workers > sum(age < launch_seconds for age in ages)


def _never_came(
    observation: Observation, registrations: Registrations, breakers: Mapping[ShapeName, Breaker]
) -> frozenset[ShapeName]:
    registered: dict[ShapeName, datetime] = {}
    nodes = {node.name: node for node in observation.snapshot.nodes or () if not node.gone}
    for worker in observation.edge.workers or ():
        if worker.name in nodes:
            at = nodes[worker.name].registered_at or worker.started_at
            registered[worker.shape] = max(at, registered.get(worker.shape, at))
    overdue: Counter[ShapeName] = Counter()
    for each in registrations.unregistered.values():
        breaker, last = breakers.get(each.shape), registered.get(each.shape)
        if (
            (observation.now - each.started_at).total_seconds() >= each.limit_seconds
            and each.started_under_observation
            and (last is None or last < each.started_at)
            and (breaker is None or breaker.failed_at <= each.started_at)
        ):
            overdue[each.shape] += 1
    return frozenset(
        shape
        for shape, count in overdue.items()
        if shape in breakers or count + registrations.latency.given_up_in_a_row(shape) >= NEVER_CAME_IN_A_ROW
    )
