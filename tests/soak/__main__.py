"""`make soak MINUTES=`: random submits on the lab, and troubles of every part one after another.

After the first third no service is killed, so that memory is measured over long lives; all other troubles go on. At the
end all troubles are over, all jobs must end, and the fleet must go to zero. Prints one JSON line last: keys that
were `lost` or `doubled`, `orphans` (workers, nodes and processes that stay), `mib_per_hour` of each service, and how
often each trouble was caused. Needs root and a C compiler.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import psutil
from aiohttp import ClientError
from clusterra_contracts.events import Event
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer, observe
from clusterra_lab.machine.process import until
from clusterra_lab.machine.progress import Progress, console_progress
from clusterra_lab.parts.api_errors import UnexpectedAnswerError
from clusterra_lab.parts.aws import aws_emulator
from clusterra_lab.parts.aws_proxy import aws_proxy
from clusterra_lab.parts.user import User
from clusterra_lab.stack.services import PEOPLE
from clusterra_lab.stack.stack import LabOptions, Stack, stack

from soak import audit
from soak.clock import AgentClock
from soak.load import Load
from soak.memory import Sample, mib_per_hour
from soak.troubles import Troubles

POLICY = ScalingPolicy(idle_seconds=5.0, max_workers=20, boot_timeout_seconds=60.0, ghost_seconds=60.0)
"""Short times, so that a worker that Slurm has forgotten is gone before the end of the run."""
SHARED_MIB = 16
HEAL_SECONDS = 420.0
"""How long the lab may take, after the last trouble, to end all jobs and to remove all workers."""
SAMPLE_SECONDS = 5.0


class Soak:
    """One run on a lab."""

    def __init__(self, lab: Stack, load: Load, troubles: Troubles, observer: Observer) -> None:
        self._lab = lab
        self._load = load
        self._troubles = troubles
        self._observer = observer
        self._samples: dict[str, list[Sample]] = {}

    async def run(self, arguments: argparse.Namespace, progress: Progress) -> dict[str, object]:
        """Load and troubles for the given time, then the audit."""
        stop = asyncio.Event()
        sampling = asyncio.create_task(self._sample())
        async with asyncio.TaskGroup() as work:
            work.create_task(self._load.run(stop, arguments.submit_seconds))
            pauses, last_kill = (
                (0.3 * arguments.pause, 1.7 * arguments.pause),
                time.monotonic() + 20 * arguments.minutes,
            )
            work.create_task(self._troubles.run(stop, pauses, last_kill))
            work.create_task(self._end(stop, arguments.minutes * 60, progress))
        try:
            return await self._audit(progress)
        finally:
            sampling.cancel()

    async def _end(self, stop: asyncio.Event, seconds: float, progress: Progress) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            progress(f"{left:.0f} s left; {len(self._load.accepted)} jobs, {self._troubles.counts.total()} troubles")
            await asyncio.sleep(min(left, 15.0))
        stop.set()
        progress("waiting for the answers to all submits")

    async def _sample(self) -> None:
        while True:
            for name, service in self._lab.services.items():
                try:
                    process = psutil.Process(service.pid)
                    mib, age = process.memory_info().rss / 2**20, time.time() - process.create_time()
                except psutil.NoSuchProcess:
                    continue
                self._samples.setdefault(name, []).append(Sample(service.pid, age, mib))
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _audit(self, progress: Progress) -> dict[str, object]:
        accepted, began = self._load.accepted, time.monotonic()
        progress(f"waiting for the end of {len(accepted)} jobs")
        recorded: tuple[audit.Run, ...] = ()
        queued: tuple[audit.Run, ...] = ()

        async def all_ended() -> bool:
            nonlocal recorded, queued
            sacct = await self._lab.slurm.run(*audit.SACCT, *audit.SACCT_FIELDS)
            squeue = await self._lab.slurm.run(*audit.SQUEUE)
            if sacct.returncode or squeue.returncode:
                return False
            recorded, queued = audit.runs(sacct.stdout), audit.runs(squeue.stdout)
            # After a restart of slurmdbd, accounting hears of an end some seconds later.
            return not queued and not lost()[0]

        def lost() -> tuple[set[str], set[str]]:
            """The keys whose job is neither known nor was lost by a killed slurmctld, and those that it lost."""
            missing = audit.lost(accepted, recorded, queued)
            by_slurm = audit.lost_by_slurmctld(missing, self._load.accepted_at, self._troubles.slurmctld_killed_at)
            return missing - by_slurm, by_slurm

        await _patiently(all_ended, HEAL_SECONDS)
        progress("waiting for the events and for the end of all workers")
        events: list[Event] = []

        async def all_told() -> bool:
            nonlocal events
            try:
                events = await self._load.users[0].history("job.*")
            except (UnexpectedAnswerError, ClientError):
                return False
            return not any(audit.event_faults(accepted, events).values())

        await _patiently(all_told, 60.0)

        async def nothing_left() -> bool:
            return not any((await self._orphans()).values())

        await _patiently(nothing_left, max(HEAL_SECONDS - (time.monotonic() - began), 60.0))
        orphans = await self._orphans()
        missing, by_slurm = lost()
        return {
            "lost": len(missing),
            "doubled": len(audit.doubled(recorded)),
            "orphans": sum(orphans.values()),
            "mib_per_hour": {name: mib_per_hour(samples) for name, samples in self._samples.items()},
            "troubles": dict(sorted(self._troubles.counts.items())),
            "jobs": len(accepted),
            "lost_by_killed_slurmctld": sorted(by_slurm),
            "lost_keys": sorted(missing),
            "doubled_keys": sorted(audit.doubled(recorded)),
            "unfinished": sorted(audit.unfinished(accepted, recorded, queued)),
            "unknown_to_clients": sorted(audit.unknown_to_clients(accepted, recorded)),
            "refused": self._load.refused,
            "left": orphans,
            "events": audit.event_faults(accepted, events),
            "repeated_submits": dict(self._load.answers),
            "store_refused": self._troubles.store.refused,
            "healed_seconds": round(time.monotonic() - began),
            "peak_mib": {name: round(max(sample.mib for sample in samples)) for name, samples in self._samples.items()},
            "faults_of_the_soak": self._troubles.log,
            "load_average": os.getloadavg()[0],
        }

    async def _orphans(self) -> dict[str, int]:
        """Workers of the edge, nodes of Slurm, and slurmd processes that exist now."""
        nodes = (await self._lab.slurm.run("sinfo", "--noheader", "--Node")).stdout.split("\n")
        return {
            "workers": sum((self._observer.workers or {}).values()),
            "nodes": sum(bool(line.strip()) for line in nodes),
            "slurmds": sum(1 for _ in _slurmds(self._lab)),
        }


async def _patiently(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Wait for a condition. What is missing after that time is in the figures."""
    try:
        await until(condition, seconds=seconds, what="the end of the soak", every=1.0)
    except TimeoutError:
        return


def _slurmds(lab: Stack) -> Iterator[int]:
    """The pids of this lab's slurmd and slurmstepd, by command line: after a reconfiguration the name is another."""
    ours = Path(f"/proc/{lab.slurm.init_pid}/ns/pid").readlink()
    for process in psutil.process_iter():
        try:
            program = Path((process.cmdline() or [""])[0]).name
            worker = program.startswith(("slurmd", "slurmstepd")) and not program.startswith("slurmdbd")
            if worker and Path(f"/proc/{process.pid}/ns/pid").readlink() == ours:
                yield process.pid
        except (FileNotFoundError, psutil.NoSuchProcess):
            continue


@contextmanager
def small_file_system(folder: Path) -> Iterator[Path]:
    """A file system in memory that is full after a few megabytes, until the block ends."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SHARED_MIB}m,mode=1777", "soak", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@asynccontextmanager
async def soaked(folder: Path, shared: Path, arguments: argparse.Namespace, progress: Progress) -> AsyncIterator[Soak]:
    """A lab whose shared folder is `shared`, whose store can be throttled, and whose agent has a clock of its own."""
    clock, rng = AgentClock(folder), random.Random(arguments.seed)
    slurm = folder / "lab" / "state" / "slurm"
    slurm.mkdir(parents=True)
    # A link, because the lab unmounts whatever is mounted below its own folder.
    (slurm / "shared").symlink_to(shared)
    options = LabOptions(POLICY, environment=clock.environment)
    async with aws_emulator(folder / "aws", progress=progress) as aws, aws_proxy(aws) as store:
        # The lab then takes this as an emulator that somebody else runs.
        os.environ.update(store.aws.environment())
        async with (
            stack(folder / "lab", options, progress=progress) as lab,
            observe(lab.bus, lab.cluster) as observer,
            lab.user(PEOPLE[0].email) as ada,
            lab.user(PEOPLE[1].email) as grace,
        ):
            users: list[User] = [ada, grace]
            troubles = Troubles(lab, clock, store, shared, rng, frozenset(arguments.without))
            yield Soak(lab, Load(users, rng), troubles, observer)


async def soak(arguments: argparse.Namespace, folder: Path, shared: Path, progress: Progress) -> dict[str, object]:
    """Start the lab, run, and stop it."""
    async with soaked(folder, shared, arguments, progress) as running:
        return await running.run(arguments, progress)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--submit-seconds", type=float, default=3.0, help="mean seconds between two submits")
    parser.add_argument("--pause", type=float, default=10.0, help="mean seconds between two troubles")
    parser.add_argument("--without", action="append", default=[], help="a trouble to leave out, such as 'full disk'")
    parser.add_argument("--folder", type=Path, help="keep logs and state in this new folder")
    arguments = parser.parse_args()
    with ExitStack() as opened:
        folder = arguments.folder or Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        folder.mkdir(parents=True, exist_ok=True)
        shared = opened.enter_context(small_file_system(folder / "shared"))
        figures = asyncio.run(soak(arguments, folder, shared, opened.enter_context(console_progress())))
    print(json.dumps({**figures, "minutes": arguments.minutes, "seed": arguments.seed}))


if __name__ == "__main__":
    main()
