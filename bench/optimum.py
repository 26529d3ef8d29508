"""Finds the cheapest workers for a few jobs with a mixed-integer program, solved to proved optimality by HiGHS."""

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
from clusterra_scaler.planner.packing.items import Offering

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Optimum:
    """Result of the solver, in USD per hour."""

    found: float
    bound: float
    """Lower bound of the cost; the same as `found` unless the time limit was reached."""


def optimum(jobs: Sequence[tuple[int, float]], offerings: Sequence[Offering], most_seconds: float) -> Optimum:
    """The lowest price of workers that can run all jobs at the same time; `jobs` are pairs of CPUs and GiB.

    A worker is named by its first job: job i opens a worker of shape s (`opens`), and later jobs join it (`joins`).
    This excludes the many solutions that differ only in the names of workers.
    """
    ordered = sorted(jobs, reverse=True)
    numbers = range(len(ordered))
    program = highspy.Highs()  # type: ignore[no-untyped-call]
    program.silent()
    program.setOptionValue("threads", 1)
    program.setOptionValue("time_limit", most_seconds)
    program.setOptionValue("mip_rel_gap", 1e-4)
    opens = [[program.addBinary(obj=each.usd_per_second * HOUR) for each in offerings] for _ in numbers]
    joins = {(first, other): program.addBinary() for first in numbers for other in numbers if other > first}
    for first in numbers:
        opened = program.qsum(opens[first])
        program.addConstr(opened + program.qsum(joins[other, first] for other in range(first)) == 1)
        for what in (0, 1):
            capacity = program.qsum(
                (each.cpus, each.memory_gib)[what] * opens[first][shape] for shape, each in enumerate(offerings)
            )
            others = program.qsum(ordered[other][what] * joins[first, other] for other in numbers if other > first)
            program.addConstr(ordered[first][what] * opened + others <= capacity)
        for other in numbers[first + 1 :]:
            program.addConstr(joins[first, other] <= opened)
    program.minimize()
    info = program.getInfo()
    return Optimum(info.objective_function_value, info.mip_dual_bound)
