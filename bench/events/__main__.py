"""Measures events: how many are archived, and how long one takes to many followers and webhooks.

Beside them, in the same run, plain consumers of nats-py get the same events. Prints a table, what missed its aim and,
last, one JSON line. No Slurm runs, and root is not needed.
"""

import argparse
import asyncio
import json
import os
import tempfile
from pathlib import Path

from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.stack.events_site import SiteOptions, events_site
from gateway.__main__ import UNLIMITED

from events.measurements import Bench, Figures, Sizes

LEAST = {"archived_per_s": 2000.0}
"""The least that each figure should be."""
MOST = {
    "stream_p99_ms": 250.0,
    "webhook_p50_ms": 150.0,
    "stream_missing": 0,
    "webhook_missing": 0,
    "archive_events_mb": 150.0,
    "stream_gateway_mb": 150.0,
    "webhook_events_mb": 150.0,
}
"""The most."""


async def measure(sizes: Sizes, progress: Progress) -> Figures:
    """Run all measurements, one after another. What has a size of 0 is left out."""
    environment = {**UNLIMITED, "CLUSTERRA_WEBHOOK_NETWORKS": '["127.0.0.0/8"]'}
    options = SiteOptions(servers=1, events=1, environment=environment)
    with tempfile.TemporaryDirectory(prefix="clusterra-bench-") as folder:
        async with events_site(Path(folder), options, progress=progress) as site:
            bench = Bench(site, sizes, progress)
            bench.figures["cores"] = os.cpu_count() or 0
            if sizes.clients:
                await bench.followers()
            if sizes.webhooks:
                await bench.webhooks()
            if sizes.events:
                await bench.archive()
            return bench.figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="events for the archive (default 20000)")
    parser.add_argument("--clients", type=int, default=2000, help="clients of the live stream (default 2000)")
    parser.add_argument("--webhooks", type=int, default=100, help="webhooks, at most 100 (default 100)")
    parser.add_argument("--rate", type=float, default=100.0, help="events a second for the clients (default 100)")
    parser.add_argument("--webhook-rate", type=float, default=0.5, help="and for the webhooks (default 0.5)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long, each (default 20)")
    arguments = parser.parse_args()
    with console_progress() as progress:
        figures = asyncio.run(measure(Sizes(**vars(arguments)), progress))
    for what, value in figures.items():
        print(f"{what:38} {value:10.3f}")
    for what, aim in [*LEAST.items(), *MOST.items()]:
        if what in figures and (figures[what] < aim if what in LEAST else figures[what] > aim):
            print(
                f"missed: {what} is {figures[what]:g}, and should be at {'least' if what in LEAST else 'most'} {aim:g}"
            )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
