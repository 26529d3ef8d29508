"""Detects shapes that are unavailable, from what the edge reports of workers that do not start, and their recovery.

The edge reports a worker as stuck from its first moment: in Kubernetes a pod is unschedulable until a machine has been
bought for it. Karpenter batches pods for up to 10 s, and a launch takes some more seconds. So stuck workers are no
failure while all of them may be younger than `LAUNCH_SECONDS`. There is also no failure before two heartbeats that are
`LASTING_SECONDS` apart have reported them: a machine that is being replaced, or a quota that is full only while a
worker leaves, has recovered by then.

An edge that cannot see machines being launched reports the same for a booting worker as for an unavailable one. Then
the usual provisioning latency of the shape counts in place of `LAUNCH_SECONDS`.

Workers that never register are a failure too, whatever the edge reports: from the second overdue one in a row. The
first may be a bad machine. So are workers that Slurm drains as they register, from the second one in a row.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol

from clusterra_contracts.heartbeat import Stuck, StuckCause
from clusterra_contracts.identity import ShapeName

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.breakers import LaunchFailure, ShapeBreaker
from clusterra_scaler.planner.observed.drained_launches import DrainedLaunches
from clusterra_scaler.planner.observed.observation import Edge, Observation
from clusterra_scaler.planner.observed.registration import Registrations
from clusterra_scaler.planner.observed.slurm_drains import drained_at_registration

LAUNCH_SECONDS = 20.0
LASTING_SECONDS = 10.0
IN_A_ROW = 2
"""Number of overdue workers in a row that make a failure, and of those that Slurm drains as they register."""

_REASONS: Mapping[StuckCause, str] = {
    "insufficient_capacity": "no capacity for",
    "quota": "a quota leaves no room for",
    "misclassified": "no machine is what it should be for",
}
"""Causes that another shape may not share. An image that cannot be pulled, for example, affects all shapes."""


class Launches(Protocol):
    """What is remembered of launches: a part of the observation history."""

    @property
    def stuck_since(self) -> Mapping[ShapeName, datetime]:
        """The result of `stuck_since`."""
        ...

    @property
    def registrations(self) -> Registrations:
        """The workers that Slurm does not have."""
        ...

    @property
    def drained_launches(self) -> DrainedLaunches:
        """The workers that Slurm drained as they registered."""
        ...


def stuck_since(
    before: Mapping[ShapeName, datetime], observation: Observation, latency: ProvisioningLatency
) -> Mapping[ShapeName, datetime]:
    """The shapes that the edge reports as stuck, and when each was first reported. No report changes nothing."""
    edge = observation.edge
    reported_at = edge.listed_at
    if not edge.is_fresh(observation.now) or reported_at is None or edge.stuck is None:
        return before
    return {
        each.shape: before.get(each.shape, reported_at)
        for each in edge.stuck
        if each.cause in _REASONS and _exceeds_launch_time(each, edge, reported_at, latency)
    }


def failing_shapes(
    observation: Observation, launches: Launches, breakers: Iterable[ShapeBreaker]
) -> Mapping[ShapeName, LaunchFailure]:
    """The shapes that fail at a complete observation, by what is remembered of launches up to this observation."""
    reported_at, by_shape = observation.edge.listed_at, {breaker.shape: breaker for breaker in breakers}
    stuck = {each.shape: each for each in observation.edge.stuck or () if each.cause in _REASONS}
    found = {
        shape: LaunchFailure(f"workers of {shape} have never registered")
        for shape in _never_registered(observation, launches.registrations, by_shape)
    }
    for shape, reason in _drained(launches.drained_launches, by_shape).items():
        found[shape] = LaunchFailure(f"Slurm drains workers of {shape} as they register", reason, wasted=True)
    for shape, first in launches.stuck_since.items():
        if shape in stuck and reported_at is not None and (reported_at - first).total_seconds() >= LASTING_SECONDS:
            found[shape] = LaunchFailure(f"{_REASONS[stuck[shape].cause]} {shape}", stuck[shape].message)
    return found


def recovered_shapes(observation: Observation, breakers: Iterable[ShapeBreaker]) -> frozenset[ShapeName]:
    """The shapes of which a worker has registered since they failed.

    A worker that was started before the breaker opened may have had its machine by then. It counts only if it
    registered after the breaker became half-open.
    """
    nodes = {
        node.name: node
        for node in observation.snapshot.nodes or ()
        if not node.not_responding and not drained_at_registration(node)
    }
    registered = [
        (worker, nodes[worker.name].registered_at or worker.started_at)
        for worker in observation.edge.workers or ()
        if worker.phase in ("booting", "running") and worker.name in nodes
    ]
    return frozenset(
        breaker.shape
        for breaker in breakers
        for worker, registered_at in registered
        if worker.shape == breaker.shape
        and registered_at >= (breaker.failed_at if worker.started_at >= breaker.opened_at else breaker.probe_at)
    )


def stuck_workers(observation: Observation, shape: ShapeName) -> int:
    """The number of workers of a shape that are stuck because the shape is unavailable."""
    return sum(each.workers for each in observation.edge.stuck or () if each.shape == shape and each.cause in _REASONS)


def _exceeds_launch_time(stuck: Stuck, edge: Edge, reported_at: datetime, latency: ProvisioningLatency) -> bool:
    """Whether at least one of the stuck workers has been booting for longer than a launch takes."""
    launch_seconds = LAUNCH_SECONDS
    if not edge.sees_machines:
        launch_seconds = max(launch_seconds, latency.padded_p99_seconds(stuck.shape))
    ages = [
        (reported_at - worker.started_at).total_seconds()
        for worker in edge.workers or ()
        if worker.phase == "booting" and worker.shape == stuck.shape
    ]
    return stuck.workers == 0 or stuck.workers > sum(age < launch_seconds for age in ages)


def _never_registered(
    observation: Observation, registrations: Registrations, breakers: Mapping[ShapeName, ShapeBreaker]
) -> frozenset[ShapeName]:
    """The shapes with enough overdue workers in a row; one is enough for a shape that has failed before."""
    last_registered: dict[ShapeName, datetime] = {}
    nodes = {node.name: node for node in observation.snapshot.nodes or () if not node.not_responding}
    for worker in observation.edge.workers or ():
        if worker.name in nodes:
            at = nodes[worker.name].registered_at or worker.started_at
            last_registered[worker.shape] = max(at, last_registered.get(worker.shape, at))
    overdue: Counter[ShapeName] = Counter()
    for each in registrations.unregistered.values():
        breaker, last = breakers.get(each.shape), last_registered.get(each.shape)
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
        if shape in breakers or count + registrations.latency.given_up_in_a_row(shape) >= IN_A_ROW
    )


def _drained(launches: DrainedLaunches, breakers: Mapping[ShapeName, ShapeBreaker]) -> Mapping[ShapeName, str]:
    """The shapes of which Slurm has drained enough workers in a row, and its reason. As above, one may be enough."""
    failed: dict[ShapeName, str] = {}
    for shape, started in launches.in_a_row.items():
        breaker = breakers.get(shape)
        news = breaker is None or any(at >= breaker.failed_at for at in started.values())
        if news and (breaker is not None or len(started) >= IN_A_ROW):
            failed[shape] = launches.reasons[shape]
    return failed
