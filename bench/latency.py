"""Measures the time from a submit to its worker and to its run on real Slurm, beside that of Slurm's own power saving.

Prints a table and, last, one JSON line. `--submits N` shortens the run.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from aiohttp import ClientSession
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer, observe
from clusterra_lab.demo.scenario import GIB, Output, read_output
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.parts.user import User
from clusterra_lab.slurm.config import ClusterOptions, PowerSaving
from clusterra_lab.slurm.control_plane import SlurmCluster, slurm_cluster
from clusterra_lab.slurm.registration import registered_at
from clusterra_lab.stack.stack import LabOptions, Stack, stack

SCRIPT = (
    '#!/bin/bash\necho "started=$(date +%s.%N) uid=$(id -u) gid=$(id -g) node=$SLURMD_NODENAME"\n'
    'echo "ended=$(date +%s.%N)"\n'
)
JOB = {"name": "latency", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
OWN_JOB = {"name": "latency", "environment": ["PATH=/usr/bin:/bin"], "shared": ["none"]}
"""Job of the comparison with power saving: it needs a whole node, so each job needs a node that is not running yet."""
IDLE_SECONDS = 0.5
DEADLINE_SECONDS = 60.0


@dataclass
class Samples:
    """Measured times: name of the measurement -> seconds."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, what: str, seconds: float) -> None:
        self.values.setdefault(what, []).append(seconds)

    def add_between(self, what: str, start: datetime, end: datetime | None) -> None:
        if end is not None:
            self.add(what, (end - start).total_seconds())

    def figures(self) -> dict[str, dict[str, float]]:
        return {
            what: {"n": len(values), "p50": percentile(values, 50), "p99": percentile(values, 99)}
            for what, values in self.values.items()
        }


def percentile(values: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile in seconds, rounded to 0.1 ms."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return round(ordered[rank - 1], 4)


async def output_of(lab: Stack, job_id: str) -> Output:
    """Wait for a job's output, which has the times of its start and end."""
    file = lab.slurm.shared_dir / f"job_{job_id}.out"
    return await until(
        lambda: read_output(file.read_text()) if file.exists() else None,
        seconds=DEADLINE_SECONDS,
        what=f"job {job_id} to run",
        every=0.01,
    )


async def empty(observer: Observer) -> None:
    """Wait until the edge has no worker."""
    await until(lambda: observer.workers == {}, seconds=DEADLINE_SECONDS, what="an empty fleet")


async def ended(observer: Observer, job_id: str) -> None:
    """Wait for the event of a job's end."""
    await until(
        lambda: (job_id, "job.completed") in observer.job_events, seconds=DEADLINE_SECONDS, what="the job's end"
    )


async def cold(lab: Stack, user: User, observer: Observer, samples: Samples) -> None:
    """Submit into an empty fleet."""
    await empty(observer)
    submitted = await user.submit(SCRIPT, JOB)
    output = await output_of(lab, submitted.job_id)
    await ended(observer, submitted.job_id)
    applied = observer.stages(submitted.job_id, submitted.accepted_at, output.started_at).applied
    samples.add_between("cold accepted -> applied", submitted.accepted_at, applied)
    samples.add_between("cold accepted -> running", submitted.accepted_at, output.started_at)
    add_registration(samples, lab.slurm, output)


async def warm(lab: Stack, user: User, observer: Observer, samples: Samples) -> None:
    """Submit with an idle worker."""
    began = now()
    submitted = await user.submit(SCRIPT, JOB)
    samples.add_between("warm submit -> running", began, (await output_of(lab, submitted.job_id)).started_at)
    await ended(observer, submitted.job_id)


async def by_sbatch(lab: Stack, user: User, observer: Observer, samples: Samples) -> None:
    """Submit by plain sbatch into an empty fleet; the time counts from the start of sbatch."""
    await empty(observer)
    submitter = SlurmUser(name=user.profile.name, uid=user.profile.uid, gid=user.profile.uid)
    began = now()
    job_id = await lab.slurm.sbatch(submitter, SCRIPT, "--mem-per-cpu=2G", "--output=/mnt/efs/job_%j.out")
    output = await output_of(lab, job_id)
    await ended(observer, job_id)
    samples.add_between("sbatch -> applied", began, observer.stages(job_id, began, output.started_at).applied)
    samples.add_between("sbatch -> running", began, output.started_at)
    add_registration(samples, lab.slurm, output)


def add_registration(samples: Samples, slurm: SlurmCluster, output: Output) -> None:
    """Add the time from the registration of a job's new worker to the job's start."""
    registered = registered_at(slurm, output.node)
    if registered is not None:
        samples.add_between("registered -> running", registered, output.started_at)


async def repeat(count: int, what: str, progress: Progress, once: Callable[[], Awaitable[None]]) -> None:
    for number in range(1, count + 1):
        progress(f"{what}: {number} of {count}")
        await once()


async def power_saving(count: int, directory: Path, progress: Progress, samples: Samples) -> None:
    """Time from an accepted submit to the call of ResumeProgram: a slurmctld, a node per job, nothing else running."""
    options = ClusterOptions(power_saving=PowerSaving(nodes=count))
    async with slurm_cluster(directory, options, progress=progress) as slurm:
        assert slurm.resume_log is not None
        headers = {"X-SLURM-USER-TOKEN": slurm.token("ada", 20001, 20001, seconds=600)}
        body = {"script": SCRIPT, "job": {**OWN_JOB, "current_working_directory": slurm.shared_path}}
        async with ClientSession(slurm.slurmrestd_url, headers=headers, raise_for_status=True) as http:
            for number in range(1, count + 1):
                progress(f"Slurm's own power saving: {number} of {count}")
                async with http.post("/slurm/v0.0.45/job/submit", json=body) as response:
                    assert (await response.json())["job_id"]
                    accepted = time.time()
                resumed = partial(nth_call, slurm.resume_log, number)
                called = await until(resumed, seconds=DEADLINE_SECONDS, what="ResumeProgram")
                samples.add("Slurm's own accepted -> ResumeProgram", called - accepted)


def nth_call(log: Path, number: int) -> float | None:
    """Time of the n-th call of ResumeProgram, in seconds since the epoch; None before it."""
    lines = log.read_text().splitlines() if log.exists() else []
    return float(lines[number - 1].split()[0]) if len(lines) >= number else None


async def measure(submits: int, progress: Progress) -> Samples:
    """Run all measurements, one after another."""
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="clusterra-bench-") as folder:
        quick, patient = ScalingPolicy(idle_seconds=IDLE_SECONDS), ScalingPolicy(idle_seconds=600.0)
        async with (
            stack(Path(folder) / "lab", LabOptions(patient), progress=progress) as lab,
            observe(lab.bus, lab.cluster) as observer,
            lab.user("ada@acme.example") as user,
        ):
            await until(lambda: observer.workers is not None, seconds=90, what="a heartbeat")
            # Warm submits come first. The scaler learns from the long idle times of the other phases to drain an idle
            # worker at once, and a job that finds its worker drained waits up to 1.3 s until slurmctld has pinged it.
            await warm(lab, user, observer, Samples())
            await repeat(submits, "onto a warm worker", progress, lambda: warm(lab, user, observer, samples))
            await lab.set_policy(quick)
            await cold(lab, user, observer, Samples())
            await repeat(submits, "into an empty fleet", progress, lambda: cold(lab, user, observer, samples))
            sbatches = max(1, submits * 3 // 5)
            await repeat(sbatches, "by sbatch", progress, lambda: by_sbatch(lab, user, observer, samples))
        await power_saving(max(5, submits // 2), Path(folder) / "own", progress, samples)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submits", type=int, default=50, help="number of cold and of warm submits (default 50)")
    arguments = parser.parse_args()
    with console_progress() as progress:
        figures = asyncio.run(measure(arguments.submits, progress)).figures()
    for what, row in figures.items():
        print(f"{what:38} n {row['n']:>3}  p50 {row['p50'] * 1000:8.1f} ms  p99 {row['p99'] * 1000:8.1f} ms")
    own, ours = figures["Slurm's own accepted -> ResumeProgram"], figures["cold accepted -> applied"]
    print(json.dumps({"figures": figures, "ours_to_slurms_own_p50": round(ours["p50"] / own["p50"], 3)}))


if __name__ == "__main__":
    main()
