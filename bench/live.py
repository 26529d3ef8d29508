"""Plays a part of a trace on the lab's real Slurm, time compressed, and compares the bill with the simulator's.

The simulator gets the same jobs as they were really submitted and ran, the same shapes and the measured boot time. So
what differs is what decisions, drains and Slurm's own delays cost. Prints a table and, last, one JSON line: the bill by
the ledger, the simulated one, the fluid bound of the jobs as they ran, and of what the difference is made.
"""

import argparse
import asyncio
import json
import math
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import yaml
from clusterra_contracts.events import JobFact, WorkerFact
from clusterra_contracts.registry import ScalingPolicy
from clusterra_contracts.shapes import Family, Size
from clusterra_lab.demo.observer import Observer, observe
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.parts.user import User
from clusterra_lab.stack.services import CATALOGUE
from clusterra_lab.stack.stack import LabOptions, stack
from clusterra_planner_tools.simulate import catalogue as catalogues
from clusterra_planner_tools.simulate import trace as traces
from clusterra_planner_tools.simulate.catalogue import Catalogue, CatalogueUnreadable, memory_mib
from clusterra_planner_tools.simulate.result import JobRun, Part
from clusterra_planner_tools.simulate.simulation import NothingFits, fitting
from clusterra_planner_tools.simulate.trace import Job, Trace
from live_comparison import Life, Live, compared
from simulated_bill import PURPOSES
from synthetic_trace import lines

IDLE_SECONDS = 5.0
MOST_WORKERS = 60
"""Each worker is a slurmd of this machine."""
DEADLINE_SECONDS = 1800.0
ENDS = ("job.completed", "job.failed", "job.cancelled", "job.timeout")
UNLIMITED = {"CLUSTERRA_READS_PER_MINUTE": "100000000", "CLUSTERRA_CHANGES_PER_MINUTE": "100000000"}


def chosen(trace: Trace, catalogue: Catalogue, count: int, speed: float, longest: float) -> list[Job]:
    """The first jobs that some shape holds, on one node each, with all times divided by `speed`.

    Nothing runs longer than `longest` seconds of the lab.
    """
    fit = [job for job in fitting(trace, catalogue)[0] if job.nodes == 1][:count]
    return [
        replace(
            job,
            submit=(job.submit - fit[0].submit) / speed,
            run_seconds=min(longest, max(1.0, job.run_seconds / speed)),
            limit_seconds=None if job.limit_seconds is None else job.limit_seconds / speed,
        )
        for job in fit
    ]


def lab_shapes(given: Catalogue, path: Path) -> None:
    """Write shapes in the form of the lab's catalogue: of each family the five smallest, by the names of sizes."""
    by_family: defaultdict[str, list[Any]] = defaultdict(list)
    for shape in given.shapes.shapes:
        by_family[shape.family].append(shape)
    shapes: list[dict[str, Any]] = []
    for family in get_args(Family):
        ordered = sorted(by_family[family], key=lambda shape: shape.vcpu)
        shapes += [
            {
                "name": f"{family}-{size}",
                "family": family,
                "size": size,
                "vcpu": shape.vcpu,
                "memory_gib": shape.memory_gib,
                "usd_per_hour": shape.usd_per_hour,
                "real_memory_mib": shape.real_memory_mib,
            }
            for size, shape in zip(get_args(Size), ordered, strict=False)
        ]
    path.write_text(yaml.safe_dump({"shapes": shapes}))


async def play(shapes: Path, jobs: list[Job], directory: Path, policy: ScalingPolicy, progress: Progress) -> Live:
    """Run jobs on a lab of their own."""
    options = LabOptions(policy, catalogue=shapes, environment=UNLIMITED, fresh=True)
    async with (
        stack(directory, options, progress=progress) as lab,
        lab.user("ada@acme.example") as ada,
        observe(lab.bus, lab.cluster) as observer,
    ):
        await until(lambda: observer.workers is not None, seconds=120, what="a heartbeat of the edge-agent")
        ids: dict[str, Job] = {}
        began = time.time()
        progress(f"submitting {len(jobs)} jobs within {jobs[-1].submit:.0f} s")
        for job in jobs:
            await asyncio.sleep(max(0.0, began + job.submit - time.time()))
            sent = time.time()
            # Slurm tells whole seconds. The simulator would decide on all jobs of a second together.
            ids[(await ada.submit(_script(job), _request(job))).job_id] = replace(job, submit=sent)
        progress("waiting for the ends of the jobs, of the workers, and for the ledger")
        await until(lambda: _ended(observer, ids), seconds=DEADLINE_SECONDS, what="the end of all jobs", every=0.5)
        await until(lambda: observer.workers == {}, seconds=300, what="the end of the workers")
        lives = await until(lambda: _lives(ada), seconds=60, what="the events of the workers' ends", every=1.0)
        usd = await until(lambda: _bill(ada, set(lives)), seconds=120, what="the whole bill", every=1.0)
        return _live(usd, ids, observer, lives)


def _boot_seconds(lives: Mapping[str, Life], registered: Mapping[str, datetime]) -> float:
    """The mean boot time. Slurm tells the second in which a node registered: half a second too early on average."""
    boots = [
        (registered[name] - life.start).total_seconds() + 0.5 for name, life in lives.items() if name in registered
    ]
    return max(0.0, statistics.fmean(boots)) if boots else 0.0


def _script(job: Job) -> str:
    return f"#!/bin/bash\nsleep {job.run_seconds:.2f}\n"


def _request(job: Job) -> dict[str, Any]:
    request: dict[str, Any] = {"name": f"trace-{job.user}", "cpus_per_task": job.cpus, "memory_per_node": _mib(job)}
    if job.limit_seconds is not None:
        request["time_limit"] = _limit_minutes(job)
    return request | ({"shared": ["none"]} if job.exclusive else {})


def _mib(job: Job) -> int:
    return max(1, memory_mib(job.memory_gib))


def _limit_minutes(job: Job) -> int:
    """Slurm counts limits in minutes. A compressed job may not end by a limit that the real one kept."""
    return max(1, math.ceil(max(job.limit_seconds or 0.0, job.run_seconds + 30.0) / 60.0))


def _ended(observer: Observer, ids: Iterable[str]) -> bool:
    return all(any((job_id, kind) in observer.job_events for kind in ENDS) for job_id in ids)


async def _lives(ada: User) -> dict[str, Life] | None:
    """The life of each worker by its name, once the end of each is told, too."""
    starts: dict[str, tuple[str, datetime]] = {}
    ends: dict[str, datetime] = {}
    for event in await ada.history("worker.*"):
        if not isinstance(event.data, WorkerFact):
            continue
        if event.kind == "worker.started":
            starts[event.data.worker] = event.data.shape, event.time
        else:
            ends[event.data.worker] = event.time
    if not starts or starts.keys() != ends.keys():
        return None
    return {name: Life(shape, start, ends[name]) for name, (shape, start) in starts.items()}


async def _bill(ada: User, workers: set[str]) -> dict[str, float] | None:
    """The bill by purpose, once the ledger has every worker and no price is missing."""
    async with ada.session.get(f"/v1/clusters/{ada.cluster}/costs?by=worker&limit=1000") as answer:
        answer.raise_for_status()
        report = await answer.json()
    if report["unknown"] or {row["worker"] for row in report["rows"]} != workers:
        return None
    found: Counter[str] = Counter()
    for row in report["rows"]:
        found[row["purpose"]] += Decimal(row["cost"]["amount"])  # type: ignore[assignment]
    return {purpose: float(found[purpose]) for purpose in PURPOSES}


def _live(usd: dict[str, float], ids: dict[str, Job], observer: Observer, lives: Mapping[str, Life]) -> Live:
    facts: dict[str, JobFact] = {}
    for job_id in ids:
        event = next(found for kind in ENDS if (found := observer.job_events.get((job_id, kind))) is not None)
        if not isinstance(event.data, JobFact) or event.kind != "job.completed":
            raise SystemExit(f"job {job_id} ended by {event.kind}; a bill of jobs that did not run says nothing")
        facts[job_id] = event.data
    zero = min(job.submit for job in ids.values())
    jobs, runs = [], []
    for job_id, job in ids.items():
        fact = facts[job_id]
        if fact.started_at is None or fact.ended_at is None:
            raise SystemExit(f"job {job_id} has no start or no end, so its run is not known")
        start, end = (at.timestamp() - zero for at in (fact.started_at, fact.ended_at))
        limit = None if job.limit_seconds is None else _limit_minutes(job) * 60.0
        gib = _mib(job) / 1024
        submit = job.submit - zero
        jobs.append(replace(job, submit=submit, run_seconds=end - start, limit_seconds=limit, memory_gib=gib))
        part = Part(worker=0, cpus=job.cpus, memory_gib=gib)
        runs.append(JobRun(id=job.id, submit=submit, start=start, end=end, parts=(part,)))
    ordered = tuple(sorted(jobs, key=lambda job: job.submit))
    return Live(usd, ordered, tuple(runs), _boot_seconds(lives, observer.registered), tuple(lives.values()))


async def measured(arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Choose the jobs, run them, and compare."""
    trace_file: Path = arguments.trace or directory / "synthetic.swf"
    if arguments.trace is None:
        trace_file.write_text("".join(lines(max(500, 2 * arguments.jobs), seed=arguments.seed)))
    shapes = directory / "shapes.yaml"
    lab_shapes(catalogues.read(arguments.shapes or CATALOGUE), shapes)
    catalogue = catalogues.read(shapes)
    trace = traces.read(trace_file, node_cpus=catalogue.most_cpus).between(arguments.begin, None)
    jobs = chosen(trace, catalogue, arguments.jobs, arguments.speed, arguments.longest)
    policy = ScalingPolicy(idle_seconds=IDLE_SECONDS, max_workers=MOST_WORKERS, moves_per_minute=600)
    with console_progress() as progress:
        live = await play(shapes, jobs, directory / "lab", policy, progress)
    return compared(live, catalogue, policy) | {"speed": arguments.speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--trace", type=Path, help="a trace in the Standard Workload Format; without it a synthetic one"
    )
    parser.add_argument("--shapes", type=Path, help="YAML with a list `shapes`; without it the catalogue of the lab")
    parser.add_argument("--from", dest="begin", help="where the part begins: a fraction of the trace's time, or a date")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--speed", type=float, default=60.0, help="by how much the trace's time is compressed")
    parser.add_argument(
        "--longest", type=float, default=60.0, help="the longest run in seconds of the lab; others are cut"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the synthetic trace")
    arguments = parser.parse_args()
    if arguments.jobs < 1 or not 0 < arguments.speed < math.inf or not 1 <= arguments.longest < math.inf:
        raise SystemExit("--jobs must be 1 or more, --speed above 0, and --longest 1 or more")
    with tempfile.TemporaryDirectory(prefix="clusterra-live-") as directory:
        try:
            found = asyncio.run(measured(arguments, Path(directory)))
        except (traces.TraceUnreadable, traces.BadPeriod, CatalogueUnreadable, NothingFits) as error:
            raise SystemExit(str(error)) from None
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
