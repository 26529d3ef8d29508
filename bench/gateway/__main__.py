"""Measures the gateway beside slurmrestd: what it adds to a request, its lists, and many clients at once.

Needs root, as real Slurm does. Prints a table and, last, one JSON line.
"""

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.stack.stack import LabOptions, stack

from gateway.followers import follow
from gateway.measurements import Bench, Figures, Sizes
from gateway.submit_parts import SubmitParts

UNLIMITED = {"CLUSTERRA_READS_PER_MINUTE": "100000000", "CLUSTERRA_CHANGES_PER_MINUTE": "100000000"}
"""One person sends all requests of this bench."""


async def measure(sizes: Sizes, progress: Progress) -> Figures:
    """Run all measurements, one after another."""
    with tempfile.TemporaryDirectory(prefix="clusterra-bench-") as folder:
        parts = SubmitParts(Path(folder) / "submits.jsonl")
        options = LabOptions(environment={**UNLIMITED, **parts.environment})
        async with (
            stack(Path(folder) / "lab", options, progress=progress) as lab,
            lab.user("ada@acme.example") as user,
            Bench.opened(lab, user, sizes, progress) as bench,
        ):
            await bench.fill()
            await bench.details()
            await bench.lists()
            await bench.many_clients()
            await bench.many_details()
            await bench.submits(parts)  # last of these, as they make the queue longer
            return bench.figures | await follow(lab, user, sizes.followers, progress)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=3000, help="jobs in the queue (default 3000)")
    parser.add_argument("--requests", type=int, default=1000, help="requests of each kind (default 1000)")
    parser.add_argument("--clients", type=int, default=200, help="concurrent clients (default 200)")
    parser.add_argument("--seconds", type=float, default=30.0, help="time of the concurrent clients (default 30)")
    parser.add_argument("--followers", type=int, default=1000, help="followers of one output (default 1000)")
    arguments = parser.parse_args()
    with console_progress() as progress:
        figures = asyncio.run(measure(Sizes(**vars(arguments)), progress))
    for what, value in figures.items():
        print(f"{what:34} {value:10.3f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
