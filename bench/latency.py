"""Time from a submit to its worker and its run, on real Slurm, against Slurm's own power saving in the same run.

Prints a table and, last, one JSON line. `--submits N` makes a shorter run.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from clusterra_contracts.identity import now
from clusterra_lab.observer import Observer, observe
from clusterra_lab.process import until
from clusterra_lab.progress import Progress, console_progress
from clusterra_lab.scenario import GIB, read_output
from clusterra_lab.slurm import PowerSaving, slurm_cluster
from clusterra_lab.stack import Stack, stack
from clusterra_lab.user import User, logged_in

SCRIPT = (
    '#!/bin/bash\necho "started=$(date +%s.%N) uid=$(id -u) gid=$(id -g) node=$SLURMD_NODENAME"\n'
    'echo "ended=$(date +%s.%N)"\n'
)
JOB = {"name": "latency", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
IDLE_SECONDS = 0.5
DEADLINE_SECONDS = 60.0


@dataclass
class Samples:
    """Seconds by what was measured."""

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
    """The nearest-rank percentile, in seconds to the millisecond."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return round(ordered[rank - 1], 4)


async def started_at(lab: Stack, job_id: str) -> datetime:
    """When a job's script began, by the script's own clock."""
    output = lab.slurm.shared_dir / f"job_{job_id}.out"

    def read() -> datetime | None:
        found = read_output(output.read_text()) if output.exists() else None
        return found.started_at if found else None

    return await until(read, seconds=DEADLINE_SECONDS, what=f"job {job_id} to run", every=0.01)


async def empty(observer: Observer) -> None:
    """Wait until there is no worker, at the edge and in Slurm."""
    await until(lambda: observer.workers == {}, seconds=DEADLINE_SECONDS, what="the fleet to be empty")


def note_way(samples: Samples, kind: str, observer: Observer, job_id: str, accepted: datetime, ran: datetime) -> None:
    """Take a cold job's stages from what was seen on the bus."""
    running = observer.facts.get((job_id, "job.running"))
    nodes = tuple(getattr(running.data, "nodes", ())) if running else ()
    seen = observer.stages(job_id, nodes, accepted, ran)
    samples.add_between(f"{kind} accepted -> applied", accepted, seen.applied)
    if seen.registered is not None:
        samples.add_between("registered -> running", seen.registered, ran)
    samples.add_between(f"{kind} accepted -> running", accepted, ran)


async def cold(lab: Stack, user: User, observer: Observer, samples: Samples) -> None:
    await empty(observer)
    submitted = await user.submit(SCRIPT, JOB)
    ran = await started_at(lab, submitted.job_id)
    await until(lambda: (submitted.job_id, "job.completed") in observer.facts, seconds=DEADLINE_SECONDS, what="its end")
    note_way(samples, "cold", observer, submitted.job_id, submitted.accepted_at, ran)


async def warm(lab: Stack, user: User, observer: Observer, samples: Samples) -> None:
    began = now()
    submitted = await user.submit(SCRIPT, JOB)
    samples.add_between("warm submit -> running", began, await started_at(lab, submitted.job_id))


async def by_sbatch(lab: Stack, user: User, observer: Observer, samples: Samples) -> None:
    await empty(observer)
    began = now()
    job_id = await lab.slurm.sbatch(user.profile.slurm_user, SCRIPT, "--mem-per-cpu=2G", "--output=/mnt/efs/job_%j.out")
    ran = await started_at(lab, job_id)
    await until(lambda: (job_id, "job.completed") in observer.facts, seconds=DEADLINE_SECONDS, what="its end")
    note_way(samples, "sbatch", observer, job_id, began, ran)


async def repeat(count: int, what: str, tell: Progress, once: Callable[[], Awaitable[None]]) -> None:
    for number in range(1, count + 1):
        tell(f"{what}: {number} of {count}")
        await once()


async def slurms_own(count: int, directory: Path, tell: Progress, samples: Samples) -> None:
    """Submit to ResumeProgram of a slurmctld with power saving, one idle cluster, nothing else running."""
    async with slurm_cluster(directory, name="own", power_saving=PowerSaving(nodes=count), progress=tell) as slurm:
        for number in range(1, count + 1):
            tell(f"Slurm's own power saving: {number} of {count}")
            began = now()
            await slurm.submit_exclusive()
            resumed = await slurm.next_resume(seconds=DEADLINE_SECONDS)
            samples.add_between("Slurm's own submit -> ResumeProgram", began, resumed)


async def measure(submits: int, tell: Progress) -> Samples:
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="clusterra-bench-") as folder:
        async with (
            stack(Path(folder) / "lab", tell, idle_seconds=IDLE_SECONDS) as lab,
            observe(lab.bus, lab.cluster) as observer,
            logged_in(lab.gateway_url, lab.cluster.cluster, lambda url: lab.log_in(url, "ada@acme.example")) as user,
        ):
            await until(lambda: observer.workers is not None, seconds=20, what="a heartbeat")
            await repeat(submits, "into an empty fleet", tell, lambda: cold(lab, user, observer, samples))
            await repeat(max(1, submits * 3 // 5), "by sbatch", tell, lambda: by_sbatch(lab, user, observer, samples))
            await lab.provision(idle_seconds=600.0)
            await warm(lab, user, observer, Samples())
            await repeat(submits, "onto a warm worker", tell, lambda: warm(lab, user, observer, samples))
        await slurms_own(max(5, submits // 2), Path(folder) / "own", tell, samples)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--submits", type=int, default=50, help="cold and warm submits each (default 50)")
    arguments = parser.parse_args()
    with console_progress() as tell:
        figures = asyncio.run(measure(arguments.submits, tell)).figures()
    for what, seen in figures.items():
        print(f"{what:38} n {seen['n']:>3}  p50 {seen['p50'] * 1000:8.1f} ms  p99 {seen['p99'] * 1000:8.1f} ms")
    own, ours = figures["Slurm's own submit -> ResumeProgram"], figures["cold accepted -> applied"]
    print(json.dumps({"figures": figures, "ours_to_slurms_own_p50": round(ours["p50"] / own["p50"], 3)}))
    sys.exit(0)


if __name__ == "__main__":
    main()
