"""Runs one simulation: from a trace and a catalogue to its result and figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from clusterra_scaler.planner.estimates.run_time_model import RunTimeModel
from clusterra_scaler.planner.estimates.run_times import KnownRunTimes, RunTimes, WallLimitRunTimes
from clusterra_scaler.planner.estimates.settings import LearningSettings
from clusterra_scaler.planner.packing.settings import Settings

from clusterra_planner_tools.simulate.catalogue import Catalogue
from clusterra_planner_tools.simulate.figures import Figures, figures
from clusterra_planner_tools.simulate.keep_alive import FixedKeepAlive, LearnedKeepAlive
from clusterra_planner_tools.simulate.packing_policy import PackingPolicy
from clusterra_planner_tools.simulate.policies import FamilyPolicy, FirstFit, OnePerJob, Policy
from clusterra_planner_tools.simulate.result import Result
from clusterra_planner_tools.simulate.trace import Job, Trace
from clusterra_planner_tools.simulate.world import Failures, World

PolicyName = Literal["packing", "family", "one-worker-per-job", "first-fit"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
RunTimeSource = Literal["learned", "known", "wall-limits"]
"""Where the packing's run times come from: earlier jobs, the trace itself as an oracle, or the users' wall limits."""


class NothingFits(ValueError):
    """No shape holds any job. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to simulate."""

    policy: PolicyName = "packing"
    run_times: RunTimeSource = "learned"
    settings: Settings = field(default_factory=Settings)
    """The parameters of the packing."""
    learning: LearningSettings = field(default_factory=LearningSettings)
    """The parameters of learned run times."""
    keep_alive: float | Literal["learned"] = 0.0
    """How many seconds an idle worker is kept, or as long as the planner has learned to."""
    wait_usd_per_hour: float = 0.0
    """The price of an hour that a job waits for the boot of a new worker. Applies to the packing alone."""
    failures: Failures = field(default_factory=Failures)


@dataclass(frozen=True, slots=True)
class Simulation:
    """The outcome of a simulation."""

    result: Result
    figures: Figures


def fitting(trace: Trace, catalogue: Catalogue) -> tuple[list[Job], list[Job]]:
    """The jobs that some shape holds, and the jobs that none holds. Raises NothingFits."""
    fit: list[Job] = []
    misfit: list[Job] = []
    for job in trace.jobs:
        (fit if catalogue.fitting(job) else misfit).append(job)
    if not fit:
        raise NothingFits(
            f"{trace.path}: no shape holds any of the {len(misfit)} jobs; the biggest has {catalogue.most_cpus} CPUs:"
            " add bigger shapes, or spread jobs over nodes"
        )
    return fit, misfit


def simulate(
    trace: Trace, catalogue: Catalogue, options: Options, progress: Callable[[int], None] = lambda ended: None
) -> Simulation:
    """Run the jobs that some shape holds. `progress` is called with the number of ended jobs. Raises NothingFits."""
    jobs, _ = fitting(trace, catalogue)
    result = run(jobs, catalogue, options, progress)
    return Simulation(result, figures(result, jobs, catalogue))


def run(jobs: Sequence[Job], catalogue: Catalogue, options: Options, progress: Callable[[int], None]) -> Result:
    """Run these jobs, each of which some shape must hold."""
    learned = options.keep_alive == "learned"
    keep_alive = LearnedKeepAlive(catalogue) if learned else FixedKeepAlive(float(options.keep_alive))
    return World(jobs, _policy(jobs, catalogue, options), keep_alive, options.failures).run(progress)


def _policy(jobs: Sequence[Job], catalogue: Catalogue, options: Options) -> Policy:
    match options.policy:
        case "packing":
            # The local search joins jobs that end together, of which wall limits alone say too little.
            local_search = options.settings.local_search and options.run_times != "wall-limits"
            settings = replace(options.settings, local_search=local_search)
            return PackingPolicy(catalogue, _run_times(jobs, options), settings, options.wait_usd_per_hour)
        case "family":
            return FamilyPolicy(catalogue)
        case "one-worker-per-job":
            return OnePerJob(catalogue)
        case "first-fit":
            return FirstFit(catalogue)


def _run_times(jobs: Sequence[Job], options: Options) -> RunTimes:
    match options.run_times:
        case "learned":
            return RunTimeModel(options.learning)
        case "known":
            return KnownRunTimes({str(job.id): job.run_seconds for job in jobs})
        case "wall-limits":
            return WallLimitRunTimes()
