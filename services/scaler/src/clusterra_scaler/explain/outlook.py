"""What the places say that waiting jobs are to run on: in words, when they start, and what they cost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from clusterra_contracts.identity import ShapeName
from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.shapes import Shape

from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.observed.observation import Observation
from clusterra_scaler.planner.placement.plan import Place, Unmet
from clusterra_scaler.planner.placement.shape_choice import holds
from clusterra_scaler.planner.requests import gres
from clusterra_scaler.planner.requests.constraints import parse
from clusterra_scaler.planner.requests.demand import Demand, Need

_SPELT_OUT = 3


@dataclass(frozen=True, slots=True)
class Outlook:
    """Of jobs that wait for nodes: equal ones, an array's tasks, or the components of one."""

    groups: Sequence[PendingJobs]
    demand: Demand
    places: tuple[Place, ...]
    unmet: Sequence[Unmet] = ()
    """Those of them that get no worker now."""
    not_bought: frozenset[ShapeName] = frozenset()
    """Shapes of which workers would be bought, if anything were done."""

    def text(self, observation: Observation, at: datetime) -> str:
        """Which workers they wait for, or why there are none."""
        sentences = []
        if self.groups[0].held:
            sentences.append("Slurm holds it until a node registers that fits it.")
        if self.places:
            sentences.append(self._places_text(observation, at))
        without: Counter[str] = Counter()
        for each in self.unmet:
            without[each.reason] += each.count
        for reason, count in without.items():
            if count == self.demand.count:
                sentences.append(f"No worker is bought for it now: {reason}.")
            else:
                sentences.append(f"{count} of {self.demand.count} get no worker now: {reason}.")
        return " ".join(sentences) or "It waits for nodes."

    def expected_start(self, observation: Observation, latency: ProvisioningLatency, at: datetime) -> datetime | None:
        """When all of their places are ready; None where that is not known, or not for all of them."""
        if self.unmet or not self.places:
            return None
        started = {worker.name: worker.started_at for worker in observation.edge.workers or ()}
        ready = [at]
        for place in self.places:
            if place.kind in ("node", "draining") and self._has_room(place, observation):
                continue
            # A busy node is waited for where a new worker would take longer than the jobs on it.
            seconds = latency.typical_seconds(place.shape)
            if seconds is None:
                return None
            since = started.get(place.worker, at) if place.kind == "booting" else at
            ready.append(since + timedelta(seconds=seconds))
        return max(ready)

    def usd_per_hour(self, shapes: Sequence[Shape]) -> float | None:
        """What one job or task costs at these places: where they differ, as much as on average."""
        if not self.places:
            return None
        priced = {shape.name: shape for shape in shapes}
        on = [priced.get(place.shape) for place in self.places]
        return sum(part.nodes * _mean_usd_per_hour(part.need, on) for part in self.demand.parts)

    def _places_text(self, observation: Observation, at: datetime) -> str:
        who, verb = self._who
        nodes = [place for place in self.places if place.kind == "node"]
        fleet_bin = _names([place.worker for place in nodes if self._has_room(place, observation)])
        busy = _names([place.worker for place in nodes if not self._has_room(place, observation)])
        later = f"room on {busy}, where jobs are expected to end before a new worker would be there" if busy else ""
        coming = [each for each in (later, self._booting(observation, at), self._ordered(), self._taken_back()) if each]
        if not coming:
            when = "after jobs of higher priority" if self.groups[0].reason == "Priority" else "at its next look"
            return f"{who} can start on {fleet_bin}: Slurm does it {when}."
        several = f"{self.demand.nodes} nodes: " if self.demand.nodes > 1 else ""
        beside = f", beside room on {fleet_bin}" if fleet_bin else ""
        return f"{who} {verb} for {several}{' and '.join(coming)}{beside}."

    def _has_room(self, place: Place, observation: Observation) -> bool:
        """Whether one of them could start there now."""
        node = next((node for node in observation.snapshot.nodes or () if node.name == place.worker), None)
        return node is None or any(
            node.cpus - node.cpus_allocated >= part.need.cpus
            and node.memory_mib - node.memory_allocated_mib >= part.need.memory_mib
            and gres.fits(part.need.gres, gres.without(gres.asking_for(node.gres_allocated), node.gres))
            and (node.cpus_allocated == 0 or not part.need.exclusive)
            for part in self.demand.parts
        )

    def _booting(self, observation: Observation, at: datetime) -> str:
        names = [place.worker for place in self.places if place.kind == "booting"]
        if not names:
            return ""
        started = {worker.name: worker.started_at for worker in observation.edge.workers or ()}
        seconds = max((at - started.get(name, at)).total_seconds() for name in names)
        if len(names) == 1:
            return f"the worker {names[0]}, which has been booting for {seconds:.0f} s"
        return f"the workers {_names(names)}, which have been booting for up to {seconds:.0f} s"

    def _ordered(self) -> str:
        shapes = list(dict.fromkeys(place.shape for place in self.places if place.kind in ("ordered", "new")))
        if not shapes:
            return ""
        one = self.demand.count == 1 and self.demand.nodes == 1
        named = f"a worker of the shape {shapes[0]}" if one else f"workers of the shape {' and '.join(shapes)}"
        if self.not_bought.issuperset(shapes):
            return f"{named}, which would be ordered"
        return f"{named}, which {'is' if one else 'are'} ordered and not started yet"

    def _taken_back(self) -> str:
        names = [place.worker for place in self.places if place.kind == "draining"]
        if not names:
            return ""
        return f"{_names(names)}, which {'is' if len(names) == 1 else 'are'} taken back into work"

    @property
    def _who(self) -> tuple[str, str]:
        """The subject of a sentence, and its verb."""
        count = self.demand.count
        if count == 1:
            return "It", "waits"
        if len(self.groups[0].job_ids) == 1:
            return f"The {count} tasks of the array that may start now", "wait"
        return f"It and {count - 1} more that ask for the same", "wait"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SPELT_OUT])
    return shown if len(names) <= _SPELT_OUT else f"{shown} and {len(names) - _SPELT_OUT} others"


def _share(need: Need, shape: Shape) -> float:
    """Of the price of a worker, by CPU or by GPU, whichever is more."""
    by_gpu = gres.gpus(need.gres) / shape.gpu_count if shape.gpu_count else 0.0
    return 1.0 if need.exclusive else max(need.cpus / shape.worker.cpus, by_gpu)


def _mean_usd_per_hour(need: Need, on: Sequence[Shape | None]) -> float:
    allows = parse(need.constraint)
    holding = [each for each in on if each and holds(each, need) and allows(each.worker.features)]
    shares = [each.usd_per_hour * _share(need, each) for each in holding]
    return sum(shares) / len(shares) if shares else 0.0
