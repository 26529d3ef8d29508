"""Measures `clusterra advise` on a synthetic trace: jobs per second of CPU, and the most memory.

Prints progress and, last, one JSON line.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

from clusterra_planner_tools.advise.advice import Request, advise
from clusterra_planner_tools.advise.report import page
from synthetic_trace import lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    arguments = parser.parse_args()
    shown: set[str] = set()

    def step(what: str, done: int, total: int | None) -> None:
        if what not in shown:
            shown.add(what)
            print(f"{what}, after {time.process_time() - began:.0f} s", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.swf"
        with trace.open("w") as file:
            file.writelines(lines(arguments.jobs, users=200, jobs_per_day=8_000.0))
        began = time.process_time()
        found = advise(Request(trace), step)
        written = len(page(found))
    seconds = time.process_time() - began
    figures = {
        "jobs": found.jobs,
        "simulated": found.sampled.simulated,
        "seconds": round(seconds, 1),
        "jobs_per_second": round(found.records / seconds),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "margin": round(found.on_demand[0].usd_margin / found.on_demand[0].usd, 4),
        "report_kib": written // 1024,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
