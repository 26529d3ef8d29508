"""Measures the console in real Chromium, with a long list of held jobs of a real Slurm.

Needs root, as real Slurm does, and the built console. Prints a table, what missed its aim and, last, one JSON line.
"""

import argparse
import asyncio
import json
import os
import tempfile
from pathlib import Path

from browser.playwright_api import running_browser
from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.parts.user import User
from clusterra_lab.stack.services import console_built
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from gateway.__main__ import UNLIMITED
from gateway.measurements import Bench as Queue
from gateway.measurements import Sizes

from console.measurements import JOB, SCRIPT, Bench, Figures

AIMS = {
    "js_gzip_kib": 250.0,
    "load_p50_ms": 1000.0,
    "requests": 12.0,
    "sort_p50_ms": 200.0,
    "filter_p50_ms": 50.0,
    "changes_longest_task_ms": 100.0,
    "scroll_frame_p95_ms": 33.0,
    "event_to_pixel_p50_ms": 150.0,
    "back_s": 4.0,
}
"""The most that each figure may be."""
CHANGES = 1_000
CHANGED = "changed-at-once"


async def measure(jobs: int, minutes: float, loads: int, rounds: int, progress: Progress) -> Figures:
    """Fill the lab with jobs, and run all measurements, one after another."""
    changes = min(CHANGES, jobs // 2)
    with tempfile.TemporaryDirectory(prefix="clusterra-bench-") as folder:
        async with (
            stack(Path(folder) / "lab", LabOptions(environment=UNLIMITED), progress=progress) as lab,
            lab.user("ada@acme.example") as user,
            running_browser() as browser,
        ):
            await _fill(lab, user, jobs - changes, progress)
            await _add(user, changes, progress)
            bench = Bench(lab, user, browser, progress, loads, rounds)
            bench.figures["jobs"] = jobs
            bench.figures["cores"] = os.cpu_count()
            await bench.loads_of_the_page()
            async with bench.opened() as page:
                progress("sorting, filtering, scrolling")
                await bench.sorts_and_filters(page)
                await bench.scrolls(page)
            async with bench.opened() as page:
                progress("events")
                await bench.event_to_pixel(page)
                await bench.many_changes(page, CHANGED, changes)
                await bench.back_after_restart(page)
                progress(f"memory: {minutes:g} minutes")
                await bench.memory(page, minutes)
            return bench.figures


async def _fill(lab: Stack, user: User, jobs: int, progress: Progress) -> None:
    sizes = Sizes(jobs=jobs, requests=1, clients=1, seconds=1, followers=1)
    async with Queue.opened(lab, user, sizes, progress) as queue:
        await queue.fill()


async def _add(user: User, jobs: int, progress: Progress) -> None:
    """Submit the jobs that change at once, which are the newest ones of the list."""
    remaining = iter(range(jobs))

    async def submitter() -> None:
        for number in remaining:
            await user.submit(SCRIPT, {"name": CHANGED, **JOB})
            if number % 100 == 0:
                progress(f"submitting: {number} of {jobs} jobs that change")

    await asyncio.gather(*(submitter() for _ in range(8)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs in the list (default 10000)")
    parser.add_argument("--minutes", type=float, default=2.0, help="time of the measurement of memory (default 2)")
    parser.add_argument("--loads", type=int, default=7, help="cold loads (default 7)")
    parser.add_argument("--rounds", type=int, default=11, help="sorts, filters and events (default 11)")
    arguments = parser.parse_args()
    if not console_built():
        raise SystemExit("the console is not built: make console-build")
    with console_progress() as progress:
        figures = asyncio.run(measure(**vars(arguments), progress=progress))
    for what, value in figures.items():
        aim = AIMS.get(what)
        missed = "" if aim is None or (value is not None and value <= aim) else f"  misses {aim:g}"
        print(f"{what:34} {'-' if value is None else format(value, '10.1f')}{missed}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
