"""Compares the shapes of the catalogue for one job, as the planner does when it buys a worker for it. Pure.

The planner keeps no comparison: this one is made when it is asked for, by the planner's own functions, from the
snapshot, limits and failures of the last decision. It takes as long for a long queue as for a short one.

What is compared is what the job alone would cost on new workers of a shape: by the policy `packing` the expected USD
that it adds, for GPUs the list price, and for other jobs that first fit places nothing, because the rule of the
families decides.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clusterra_contracts import gres
from clusterra_contracts.alternatives import MOST_ALTERNATIVES, Alternative, Alternatives, Verdict
from clusterra_contracts.demand import Need, Part
from clusterra_contracts.identity import ShapeName
from clusterra_contracts.job_price import requests_memory, usd_per_hour
from clusterra_contracts.queue import PendingJobs, RunningJob
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shape_fit import GpuShapes
from clusterra_contracts.shapes import Catalogue, Shape

from clusterra_scaler.explain.forecast import Forecast
from clusterra_scaler.explain.shape_obstacles import Obstacle, holds_all, limit_of, obstacle_of
from clusterra_scaler.planner.decide import Decision
from clusterra_scaler.planner.estimates.provisioning_latency import ProvisioningLatency
from clusterra_scaler.planner.estimates.run_history import MIB_PER_GIB, RunHistory, RunTimeReader, traits_of_running
from clusterra_scaler.planner.observed.breakers import ShapeBreaker
from clusterra_scaler.planner.observed.quota import QuotaHeadroom
from clusterra_scaler.planner.packing.bins import cheapest_new_worker
from clusterra_scaler.planner.packing.items import Group
from clusterra_scaler.planner.packing.settings import Settings
from clusterra_scaler.planner.placement.job_groups import JobGroups, is_packable, offerings_of
from clusterra_scaler.planner.placement.plan import Plan
from clusterra_scaler.planner.placement.shape_choice import FamilyShapes, family_of

_RANKS: Mapping[Verdict, int] = {"chosen": 0, "preferred": 1, "too_small": 3, "not_for_it": 4}
"""The nearest first. All other shapes would do, and are told after the preferred one, the cheapest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What may be bought, as of a decision."""

    binding: ClusterBinding
    headroom: QuotaHeadroom
    """Before the decision bought anything."""
    breakers: Sequence[ShapeBreaker]
    latency: ProvisioningLatency
    run_times: RunTimeReader

    @classmethod
    def of(cls, decision: Decision, binding: ClusterBinding, run_history: RunHistory) -> "Offered | None":
        """What a decision could buy; None if nothing was decided."""
        if decision.headroom is None:
            return None
        return cls(
            binding=binding,
            headroom=decision.headroom,
            breakers=decision.state.breakers,
            latency=decision.observation_history.registrations.latency,
            run_times=RunTimeReader(run_history),
        )

    @property
    def groups(self) -> JobGroups:
        """Makes groups of jobs, as the packing does."""
        catalogue = self.binding.catalogue
        specs = {shape.name: shape.worker for shape in catalogue.shapes}
        return JobGroups(self.run_times, specs, GpuShapes(catalogue))

    def after(self, plan: Plan) -> "Offered":
        """What is left for jobs that a plan gives no worker."""
        return replace(self, headroom=self.headroom.after(Counter(plan.new)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """The job that the shapes are compared for."""

    parts: Sequence[Part]
    group: Group | None
    """None for a job that first fit places."""
    with_memory: bool
    chosen: frozenset[ShapeName] = frozenset()
    runs: bool = False
    unplaced: str = ""
    """Why the job has no place; empty if it has one."""

    @property
    def nodes(self) -> int:
        return sum(part.nodes for part in self.parts)


def for_waiting(groups: Sequence[PendingJobs], forecast: Forecast, plan: Plan, offered: Offered) -> Alternatives:
    """The alternatives for a job that waits for nodes."""
    demand, packs = forecast.demand, offered.binding.policy.name == "packing"
    unplaced = "" if forecast.places else next((each.reason for each in forecast.unmet), "it waits for nodes")
    job = _Compared(
        parts=demand.parts,
        group=offered.groups.group(demand, demand.job_ids[:1], demand.nodes) if packs and is_packable(demand) else None,
        with_memory=any(map(requests_memory, groups)),
        chosen=frozenset(place.shape for place in forecast.places if place.shape),
        unplaced=unplaced,
    )
    return _Comparison(job, offered.after(plan) if unplaced else offered).told()


def for_running(job: RunningJob, shapes: Mapping[str, ShapeName], offered: Offered) -> Alternatives:
    """The alternatives for a running job, as at its start. The snapshot tells no constraint of it.

    `shapes` are those of the nodes, by name.
    """
    traits = traits_of_running(job)
    asked = next(iter(job.gres.values()), {})
    need = Need(traits.cpus, round(traits.memory_gib * MIB_PER_GIB), gres=gres.request_for(asked))
    compared = _Compared(
        parts=(Part(need, max(len(job.nodes), 1)),),
        group=replace(offered.groups.running(job), nodes=max(len(job.nodes), 1))
        if offered.binding.policy.name == "packing" and not need.gres
        else None,
        with_memory=job.memory_mib is not None,
        chosen=frozenset(shapes[name] for name in job.nodes if shapes.get(name)),
        runs=True,
    )
    return _Comparison(compared, offered).told()


class _Comparison:
    def __init__(self, job: _Compared, offered: Offered) -> None:
        self._job, self._policy = job, offered.binding.policy
        self._catalogue = catalogue = offered.binding.catalogue
        self._gpu_shapes = GpuShapes(catalogue)
        # The packing leaves out workers that an earlier desired state ordered (see QuotaHeadroom.limits).
        self._headroom = replace(offered.headroom, reserved=Counter()) if job.group is not None else offered.headroom
        self._failing = {breaker.shape: breaker for breaker in offered.breakers if breaker.tripped}
        self._obstacles = {each.name: obstacle_of(job.parts, each, self._gpu_shapes) for each in catalogue.shapes}
        self._offerings = offerings_of(catalogue, offered.latency)
        self._expected = self._expected_usd()
        self._preferred = self._would_buy() if job.unplaced else frozenset[ShapeName]()
        reference = [each for each in catalogue.shapes if each.name in job.chosen | self._preferred]
        self._reference = min(reference, key=self._cost, default=None)

    def told(self) -> Alternatives:
        found = sorted(((self._alternative(shape), shape) for shape in self._catalogue.shapes), key=self._nearness)
        return tuple(each for each, _ in found[:MOST_ALTERNATIVES])

    def _expected_usd(self) -> Mapping[ShapeName, float]:
        """What the packing compares, by shape."""
        group = self._job.group
        if group is None:
            return {}
        alone = [cheapest_new_worker(group, (each,), Settings()) for each in self._offerings]
        return {offering.shape: usd * group.nodes for usd, offering in (each for each in alone if each is not None)}

    def _would_buy(self) -> frozenset[ShapeName]:
        """The shapes that would be bought for a job that has no place, of those that can be."""
        buyable = [each for each in self._catalogue.shapes if self._can_be_bought(each)]
        if self._job.group is not None:
            names = {each.name for each in buyable}
            cheapest = cheapest_new_worker(
                self._job.group, [each for each in self._offerings if each.shape in names], Settings()
            )
            return frozenset([] if cheapest is None else [cheapest[1].shape])
        needs = [part.need for part in self._job.parts]
        chosen = FamilyShapes(self._catalogue).choose(needs, Catalogue(shapes=tuple(buyable)))
        return frozenset(each.name for each in chosen if isinstance(each, Shape))

    def _can_be_bought(self, shape: Shape) -> bool:
        return self._obstacles[shape.name] is None and shape.name not in self._failing and self._limit(shape) is None

    def _limit(self, shape: Shape) -> tuple[Obstacle, bool] | None:
        return limit_of(shape.name, self._job.nodes, self._headroom, self._policy)

    def _cost(self, shape: Shape) -> float:
        """What shapes are compared by: expected USD, or else the list price."""
        return self._expected.get(shape.name, shape.usd_per_hour)

    def _nearness(self, told: tuple[Alternative, Shape]) -> tuple[int, int, float, str]:
        alternative, shape = told
        # The largest of the shapes that are too small lacks the least.
        cost = -shape.usd_per_hour if alternative.verdict == "too_small" else self._cost(shape)
        return _RANKS.get(alternative.verdict, 2), len(alternative.lacks), cost, shape.name

    def _alternative(self, shape: Shape) -> Alternative:
        job, verdict = self._job, self._verdict(shape)
        held = holds_all(job.parts, shape, self._gpu_shapes)
        share = sum(part.nodes * usd_per_hour(part.need, shape, with_memory=job.with_memory) for part in job.parts)
        return Alternative(
            shape=shape.name,
            usd_per_hour=shape.usd_per_hour,
            verdict=verdict.verdict,
            job_usd_per_hour=float(share) if held else None,
            expected_usd=self._expected.get(shape.name) if held else None,
            lacks=verdict.lacks,
            text=verdict.text,
        )

    def _verdict(self, shape: Shape) -> Obstacle:
        job, name = self._job, shape.name
        if name in job.chosen:
            verb = "runs" if job.runs else "is planned"
            return Obstacle("chosen", f"It {verb} on a worker of this shape.")
        if (obstacle := self._obstacles[name]) is not None:
            return obstacle
        if (breaker := self._failing.get(name)) is not None:
            return Obstacle("unavailable", f"It is not bought at present: {breaker.description}.")
        limit, own = self._limit(shape) or (None, False)
        if limit is not None and (own or job.unplaced):
            return limit
        if name in self._preferred:
            return Obstacle("preferred", f"It would be bought, but no worker is bought now: {job.unplaced}.")
        if job.group is None and not shape.gpu_count:
            return Obstacle("by_rule", self._rule_text(shape))
        if self._reference is not None and self._cost(shape) >= self._cost(self._reference):
            return Obstacle("costlier", self._costlier_text(shape, self._reference))
        return limit or Obstacle("unneeded", self._unneeded_text())

    def _rule_text(self, shape: Shape) -> str:
        family = family_of(self._job.parts[0].need)
        if shape.family == family:
            return f"Another size of the family {family} is bought: the largest that a waiting job of the family needs."
        return f"Its memory per CPU makes it a job for the family {family}."

    def _costlier_text(self, shape: Shape, reference: Shape) -> str:
        more = self._cost(shape) - self._cost(reference)
        if not more:
            return f"It costs as much as {reference.name}, which comes first."
        usd = f"{more:.4f}" if more >= 0.0001 else "less than 0.0001"
        if shape.name in self._expected:
            return f"The job is expected to add {usd} USD more than on {reference.name}."
        return f"A worker costs {usd} USD per hour more than one of {reference.name}."

    def _unneeded_text(self) -> str:
        if self._job.runs:
            return (
                "The job alone would cost less here. It runs on a worker that was there, is shared with other jobs, or "
                "was bought when this shape could not be had."
            )
        return (
            "The job alone would cost less here. Its place is on a worker that is there, is coming, or is shared with "
            "other jobs."
        )
