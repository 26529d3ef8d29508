"""Measures the cost of the policies on a trace and on its halves, divided by a lower bound: that of the fluid model.

Prints a table row after each run and, last, one JSON line: for each policy the cost ratio, waits and worker starts of
the whole trace, the ratios of its halves, and the duration of the whole simulation in seconds. Only the packing heeds
the price of waiting.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import get_args

from clusterra_planner_tools.simulate import catalogue as catalogues
from clusterra_planner_tools.simulate import trace as traces
from clusterra_planner_tools.simulate.catalogue import Catalogue, CatalogueUnreadable
from clusterra_planner_tools.simulate.figures import Figures
from clusterra_planner_tools.simulate.progress import jobs_progress
from clusterra_planner_tools.simulate.simulation import NothingFits, Options, fitting, simulate
from clusterra_planner_tools.simulate.trace import MemoryUnit, Trace

RUNS = {
    "family": Options("family"),
    "packing": Options("packing"),
    "packing_known_run_times": Options("packing", "known"),
    "one_worker_per_job": Options("one-worker-per-job"),
    "first_fit": Options("first-fit"),
}
COLUMNS = "{:24} {:12} {:>7} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}"
HEADINGS = ("policy", "part", "ratio", "wait mean", "wait p50", "wait p99", "longest", "starts", "per job", "took")


def measured(what: str, trace: Trace, catalogue: Catalogue, options: Options) -> tuple[Figures, float]:
    """The figures, and the CPU seconds that the simulation took."""
    jobs, _ = fitting(trace, catalogue)
    with jobs_progress(what, len(jobs)) as progress:
        began = time.process_time()
        figures = simulate(trace, catalogue, options, progress).figures
    seconds = time.process_time() - began
    if figures.violations:
        raise SystemExit(f"{what}: {figures.violations[0].what} ({figures.violations[0].where})")
    return figures, seconds


def row(policy: str, part: str, figures: Figures, seconds: float) -> str:
    return COLUMNS.format(
        policy,
        part,
        f"{figures.ratio:.4f}",
        f"{figures.wait_mean:.1f} s",
        f"{figures.wait_p50:.0f} s",
        f"{figures.wait_p99:.0f} s",
        f"{figures.wait_max:.0f} s",
        figures.worker_starts,
        f"{figures.starts_per_job:.3f}",
        f"{seconds:.1f} s",
    )


def compared(trace: Trace, catalogue: Catalogue, wait_usd_per_hour: float) -> dict[str, object]:
    """The results of all policies on the whole trace and on its halves."""
    first, second = trace.halves()
    parts = {"whole": trace, "first half": first, "second half": second}
    print(COLUMNS.format(*HEADINGS), flush=True)
    found: dict[str, object] = {}
    for policy, options in RUNS.items():
        results: dict[str, tuple[Figures, float]] = {}
        for part, jobs in parts.items():
            priced = replace(options, wait_usd_per_hour=wait_usd_per_hour)
            results[part] = measured(f"{policy}, {part}", jobs, catalogue, priced)
            print(row(policy, part, *results[part]), flush=True)
        whole, seconds = results["whole"]
        found[policy] = {
            "ratio": round(whole.ratio, 4),
            "halves": [round(results[half][0].ratio, 4) for half in ("first half", "second half")],
            "cost_usd": round(whole.cost_usd, 2),
            "wait_mean": round(whole.wait_mean, 2),
            "wait_p50": whole.wait_p50,
            "wait_p99": whole.wait_p99,
            "worker_starts": whole.worker_starts,
            "starts_per_job": round(whole.starts_per_job, 4),
            "seconds": round(seconds, 1),
        }
    return found


def price(given: str) -> float:
    """An argument in USD. Raises ValueError, which argparse reports."""
    usd = float(given)
    if not 0 <= usd < math.inf:
        raise ValueError(given)
    return usd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, help="a trace in the Standard Workload Format")
    parser.add_argument("shapes", type=Path, help="YAML with a list `shapes`")
    parser.add_argument("--memory", choices=get_args(MemoryUnit), default="auto", help="unit of the memory columns")
    parser.add_argument("--node-cpus", type=int, help="like in `clusterra-planner simulate`")
    parser.add_argument("--wait-usd-per-hour", type=price, default=0.0, help="like in `clusterra-planner simulate`")
    arguments = parser.parse_args()
    try:
        catalogue = catalogues.read(arguments.shapes)
        trace = traces.read(arguments.trace, arguments.memory, arguments.node_cpus or catalogue.most_cpus)
        jobs, misfits = fitting(trace, catalogue)
        print(f"{len(jobs)} jobs; left out: {len(trace.bad)} bad lines, {len(misfits)} jobs that fit no shape")
        found = compared(trace, catalogue, arguments.wait_usd_per_hour)
    except (traces.TraceUnreadable, traces.BadPeriod, CatalogueUnreadable, NothingFits) as error:
        raise SystemExit(str(error)) from None
    counts = {"jobs": len(jobs), "bad_lines": len(trace.bad), "misfits": len(misfits)}
    print(json.dumps({**counts, "wait_usd_per_hour": arguments.wait_usd_per_hour, "policies": found}))


if __name__ == "__main__":
    main()
