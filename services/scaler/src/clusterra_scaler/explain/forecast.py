"""Where waiting jobs are planned to run: as text, with the expected start and the cost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from clusterra_contracts import gres
from clusterra_contracts.constraints import parse
from clusterra_contracts.demand import Need
from clusterra_contracts.identity import JobId, ShapeName
from clusterra_contracts.job_price import requests_memory, usd_per_hour
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.shape_fit import holds
from clusterra_contracts.shapes import Shape

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.placement.plan import Place, Plan, Unmet
from clusterra_scaler.planner.requests.demand import Demand

_NAMED_WORKERS = 3
"""Maximum number of worker names in a sentence."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The plan for one demand of jobs that wait for nodes: equal jobs, an array's tasks, or a job's components."""

    groups: Sequence[PendingJobs]
    demand: Demand
    places: tuple[Place, ...]
    """The workers that they are planned to run on."""
    unmet: Sequence[Unmet] = ()
    """Those of the jobs that get no worker now."""
    not_bought: frozenset[ShapeName] = frozenset()
    """Shapes that the plan would buy but the scaler does not, because it is in shadow mode."""

    @classmethod
    def of(cls, groups: Sequence[PendingJobs], demand: Demand, plan: Plan, *, shadow: bool) -> "Forecast":
        """What a plan has for a demand of these groups."""
        first = demand.job_ids[0]
        return cls(
            groups,
            demand,
            plan.places.get(first, ()),
            tuple(unmet for unmet in plan.unmet if unmet.demand.job_ids[0] == first),
            frozenset(shape for shape, count in plan.new.items() if count) if shadow else frozenset(),
        )

    def text(self, observation: Observation, at: datetime) -> str:
        """Describe which workers the jobs wait for, or why there are none."""
        sentences = []
        if self.groups[0].held:
            sentences.append("Slurm holds it until a fitting node registers.")
        if self.places:
            sentences.append(self._places_text(observation, at))
        count_by_reason: Counter[str] = Counter()
        for each in self.unmet:
            count_by_reason[each.reason] += each.count
        for reason, count in count_by_reason.items():
            if count == self.demand.count:
                sentences.append(f"No worker is bought for it now: {reason}.")
            else:
                sentences.append(f"{count} of {self.demand.count} get no worker now: {reason}.")
        return " ".join(sentences) or "It waits for nodes."

    def expected_start(self, observation: Observation, latency: ProvisioningLatency, at: datetime) -> datetime | None:
        """When all places of the jobs are expected to be ready; None if that is unknown for any of them."""
        if self.unmet or not self.places:
            return None
        ready = self.ready_times(observation, latency, at)
        known = [moment for moment in ready if moment is not None]
        return max(known) if len(known) == len(ready) else None

    def ready_times(
        self, observation: Observation, latency: ProvisioningLatency, at: datetime
    ) -> tuple[datetime | None, ...]:
        """When each place is expected to be ready, and never before `at`; None where that is unknown."""
        started = {worker.name: worker.started_at for worker in observation.edge.workers or ()}
        ready: list[datetime | None] = []
        for place in self.places:
            if place.kind in ("node", "draining") and self._has_capacity(place, observation):
                ready.append(at)
                continue
            # A job is planned onto a busy node only if its jobs should end before a new worker could start.
            seconds = latency.typical_seconds(place.shape)
            since = started.get(place.worker, at) if place.kind == "booting" else at
            ready.append(None if seconds is None else max(at, since + timedelta(seconds=seconds)))
        return tuple(ready)

    def usd_per_hour(self, shapes: Sequence[Shape]) -> float | None:
        """The cost of one job or task at its places. Where the prices of its places differ, their mean counts."""
        if not self.places:
            return None
        by_name = {shape.name: shape for shape in shapes}
        places = [
            (by_name[name], n) for name, n in Counter(each.shape for each in self.places).items() if name in by_name
        ]
        with_memory = any(map(requests_memory, self.groups))
        return sum(
            part.nodes * _mean_usd_per_hour(part.need, places, with_memory=with_memory) for part in self.demand.parts
        )

    def _places_text(self, observation: Observation, at: datetime) -> str:
        subject, verb = self._subject_and_verb
        nodes = [place for place in self.places if place.kind == "node"]
        free = _names([place.worker for place in nodes if self._has_capacity(place, observation)])
        busy = _names([place.worker for place in nodes if not self._has_capacity(place, observation)])
        later = f"capacity on {busy}, where jobs are expected to end before a new worker could start" if busy else ""
        awaited = [
            each
            for each in (later, self._booting_text(observation, at), self._ordered_text(), self._undrained_text())
            if each
        ]
        if not awaited:
            after_others = self.groups[0].reason == "Priority"
            when = "after the jobs of higher priority" if after_others else "in its next scheduling cycle"
            return f"{subject} can start on {free}: Slurm does so {when}."
        several = f"{self.demand.nodes} nodes: " if self.demand.nodes > 1 else ""
        addition = f", in addition to capacity on {free}" if free else ""
        return f"{subject} {verb} for {several}{' and '.join(awaited)}{addition}."

    def _has_capacity(self, place: Place, observation: Observation) -> bool:
        """Whether one of the jobs, or a part of it, fits into the node's free capacity now."""
        node = next((node for node in observation.snapshot.nodes or () if node.name == place.worker), None)
        return node is None or any(
            node.cpus - node.cpus_allocated >= part.need.cpus
            and node.memory_mib - node.memory_allocated_mib >= part.need.memory_mib
            and gres.fits(part.need.gres, gres.subtract(gres.request_for(node.gres_allocated), node.gres))
            and (node.cpus_allocated == 0 or not part.need.exclusive)
            for part in self.demand.parts
        )

    def _booting_text(self, observation: Observation, at: datetime) -> str:
        names = [place.worker for place in self.places if place.kind == "booting"]
        if not names:
            return ""
        started = {worker.name: worker.started_at for worker in observation.edge.workers or ()}
        seconds = max((at - started.get(name, at)).total_seconds() for name in names)
        if len(names) == 1:
            return f"the worker {names[0]}, which has been booting for {seconds:.0f} s"
        return f"the workers {_names(names)}, which have been booting for up to {seconds:.0f} s"

    def _ordered_text(self) -> str:
        shapes = list(dict.fromkeys(place.shape for place in self.places if place.kind in ("ordered", "new")))
        if not shapes:
            return ""
        single = self.demand.count == 1 and self.demand.nodes == 1
        workers = f"a worker of the shape {shapes[0]}" if single else f"workers of the shape {' and '.join(shapes)}"
        if self.not_bought.issuperset(shapes):
            return f"{workers}, which would be ordered"
        have = "has" if single else "have"
        return f"{workers}, which {have} been ordered but {have} not started yet"

    def _undrained_text(self) -> str:
        names = [place.worker for place in self.places if place.kind == "draining"]
        if not names:
            return ""
        return f"{_names(names)}, which {'is' if len(names) == 1 else 'are'} being undrained"

    @property
    def _subject_and_verb(self) -> tuple[str, str]:
        """The subject of a sentence about the jobs, and its verb."""
        count = self.demand.count
        if count == 1:
            return "It", "waits"
        if len(self.groups[0].job_ids) == 1:
            return f"The {count} tasks of the array that may start now", "wait"
        return f"It and {count - 1} more with the same request", "wait"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED_WORKERS])
    return shown if len(names) <= _NAMED_WORKERS else f"{shown} and {len(names) - _NAMED_WORKERS} others"


def _mean_usd_per_hour(need: Need, places: Sequence[tuple[Shape, int]], *, with_memory: bool) -> float:
    """The mean cost of a node's share of a job over the places whose shape can hold it. `places`: how many by shape."""
    allows = parse(need.constraint)
    costs = [
        (float(usd_per_hour(need, shape, with_memory=with_memory)), count)
        for shape, count in places
        if holds(shape, need) and allows(shape.worker.features)
    ]
    return sum(cost * count for cost, count in costs) / sum(count for _, count in costs) if costs else 0.0


def is_job_or_task(job_id: JobId, other: JobId) -> bool:
    """Whether `other` is the job, or a task of it if it is an array."""
    return other == job_id or ("_" not in job_id and other.partition("_")[0] == job_id)


def waiting_groups(job_id: JobId, pending: Sequence[PendingJobs]) -> list[PendingJobs]:
    """The group that a job waits in; for a heterogeneous job the groups of all its components."""
    found = [group for group in pending if job_id in group.job_ids]
    if not found:
        return [group for group in pending if any(is_job_or_task(job_id, each) for each in group.job_ids)][:1]
    first = found[0]
    if first.het_job_id is None:
        return found[:1]
    components = (group for group in pending if (group.het_job_id, group.uid) == (first.het_job_id, first.uid))
    return sorted(components, key=lambda group: group.het_offset)
