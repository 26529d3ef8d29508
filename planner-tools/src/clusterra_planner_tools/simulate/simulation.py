"""One simulation from a trace and a catalogue to its result and figures."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from clusterra_scaler.planner.estimates.run_time_model import Learned
from clusterra_scaler.planner.estimates.run_times import Known, RunTimes, WallLimits
from clusterra_scaler.planner.packing.settings import Settings

from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.figures import Figures, figures
from clusterra_planner_tools.simulate.keep import FixedKeep, LearnedKeep
from clusterra_planner_tools.simulate.packing_policy import Packing
from clusterra_planner_tools.simulate.policies import Family, FirstFit, OnePerJob, Policy
from clusterra_planner_tools.simulate.result import Result
from clusterra_planner_tools.simulate.trace import Job, Trace
from clusterra_planner_tools.simulate.world import Failures, World

PolicyName = Literal["packing", "family", "one-worker-per-job", "first-fit"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
RunTimeSource = Literal["learned", "known", "wall-limits"]
"""What the packing goes by: jobs before, the trace itself as an oracle, or the limits that users gave."""


class NothingFits(ValueError):
    """No shape holds any job. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to simulate."""

    policy: PolicyName = "packing"
    run_times: RunTimeSource = "learned"
    settings: Settings = field(default_factory=Settings)
    """Of the packing."""
    keep: float | Literal["learned"] = 0.0
    """For how many seconds a worker that has nothing to do stays, or as long as the planner has learned to."""
    failures: Failures = field(default_factory=Failures)


@dataclass(frozen=True, slots=True)
class Simulation:
    """What came of it."""

    result: Result
    figures: Figures


def fitting(trace: Trace, catalogue: Catalogue) -> tuple[list[Job], list[Job]]:
    """The jobs that a shape holds, and those that none holds. Raises NothingFits."""
    fit: list[Job] = []
    misfit: list[Job] = []
    for job in trace.jobs:
        (fit if catalogue.fitting(job) else misfit).append(job)
    if not fit:
        raise NothingFits(
            f"{trace.path}: no shape holds any of the {len(misfit)} jobs; the biggest has {catalogue.most_cpus} CPUs:"
            " give bigger shapes, or spread jobs over nodes"
        )
    return fit, misfit


def simulate(
    trace: Trace, catalogue: Catalogue, options: Options, tell: Callable[[int], None] = lambda ended: None
) -> Simulation:
    """Run the jobs that a shape holds. `tell` is called with how many have ended. Raises NothingFits."""
    jobs, _ = fitting(trace, catalogue)
    keep = LearnedKeep(catalogue) if options.keep == "learned" else FixedKeep(options.keep)
    world = World(jobs, _policy(jobs, catalogue, options), keep, options.failures)
    result = world.run(tell)
    return Simulation(result, figures(result, jobs, catalogue))


def _policy(jobs: list[Job], catalogue: Catalogue, options: Options) -> Policy:
    match options.policy:
        case "packing":
            # Bundles join jobs that end together, of which limits alone say too little.
            settings = replace(options.settings, joint=options.settings.joint and options.run_times != "wall-limits")
            return Packing(catalogue, _run_times(jobs, options.run_times, settings), settings)
        case "family":
            return Family(catalogue)
        case "one-worker-per-job":
            return OnePerJob(catalogue)
        case "first-fit":
            return FirstFit(catalogue)


def _run_times(jobs: list[Job], source: RunTimeSource, settings: Settings) -> RunTimes:
    match source:
        case "learned":
            return Learned(settings)
        case "known":
            return Known({str(job.id): job.run_seconds for job in jobs})
        case "wall-limits":
            return WallLimits()
