"""A queue of all kinds of jobs on the whole lab: all of them run, and each reason to wait is explained."""

import asyncio
import os
import re
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
from clusterra_contracts.events import JOB_ENDS, Event
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.why import Explanation
from clusterra_lab.demo.observer import Observer, observe
from clusterra_lab.machine.process import until
from clusterra_lab.parts.api_errors import UnexpectedAnswerError
from clusterra_lab.parts.user import User
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_lab.stack.stack import Stack
from job_cases import CASES
from mixed_queue import (
    APART,
    CHANGED,
    FILL,
    LEFT_OUT,
    RELEASE_ALL,
    RELEASED,
    UNTIL_RELEASE,
    Queued,
    mixed_queue,
    sample,
)
from site_lab import SITE_POLICY

JOBS = int(os.environ.get("MIXED_JOBS", "60"))
"""Number of jobs submitted besides the samples."""
SEED = int(os.environ.get("MIXED_SEED", "1"))
POLICY = os.environ.get("MIXED_POLICY", SITE_POLICY.name)
SECONDS_EACH = 0.5
"""Time limit per job, when there are many."""

ALICE = SlurmUser(name="alice", uid=5001, gid=5001)
BOB = SlurmUser(name="bob", uid=5002, gid=5002)

FILL_OPTIONS = ("-J", FILL, "-c", "2", "-C", "memory-xs", "-t", "60", "--qos=two", "--licenses=matlab:2")
RUNS_UNTIL_RELEASE = f"#!/bin/sh\n{UNTIL_RELEASE}"

EXPLAINED = {
    "held by the user": ("hold", "It is held by its owner"),
    "held by an administrator": ("hold", "It is held by an administrator"),
    "after another job": ("dependency", "It waits for jobs that it depends on"),
    "the only one of its name": ("dependency", "It waits for jobs that it depends on"),
    "begin time": ("time", r"It will not start before \d{4}-"),
    "licences taken": ("licence", "It waits for licences that are all in use"),
    "qos used up": ("limit", r"A limit of .* \(QOSGrpCpuLimit\)"),
    "qos without jobs": ("limit", r"A limit of .* \(QOSMaxJobsPerUserLimit\)"),
    "account without jobs": ("limit", r"A limit of .* \(AssocMaxJobsLimit\)"),
    "reservation to come": ("reservation", "It waits for its reservation later"),
    "throttled array": ("throttle", "Its array already runs as many tasks at once as its limit allows"),
    "partition that is down": ("partition", "Its partition closed is down"),
    "boots": ("nodes", "which has been booting for|has been ordered but has not started yet"),
    "more workers than there may be": ("nodes", "the cluster has reached its limit on workers"),
}
"""Case -> cause and text of its explanation while the job `fill` runs."""


@dataclass
class Site:
    """The lab, its users, and the jobs that they have submitted."""

    lab: Stack
    people: Sequence[User]
    fill: str = ""
    node: str = ""
    jobs: dict[str, Queued] = field(default_factory=dict)
    """Id -> job."""

    async def command(self, *argv: str) -> str:
        """Run a command as root inside Slurm. Raises CommandFailed."""
        done = await self.lab.slurm.run(*argv)
        if done.returncode:
            raise CommandFailed(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    async def submit(self, job: Queued, last: str, number: int) -> str:
        """Submit a job over HTTP or by sbatch, alternately where both are possible."""
        options = job.options.format(
            fill=self.fill, node=self.node, last=last or self.fill, most=SITE_POLICY.max_workers
        )
        if job.by_sbatch or number % 3 == 0:
            user = ALICE if job.name == FILL or number % 2 else BOB
            script = job.script(options) if job.components else job.script()
            args = [] if job.components else shlex.split(options)
            job_id = await self.lab.slurm.sbatch(user, script, *args, *(() if "-J" in args else ("-J", job.name)))
        else:
            person = self.people[number % len(self.people)]
            job_id = (await person.submit(job.script(options), {"name": job.name})).job_id
        self.jobs[job_id] = job
        for command in job.then:
            await self.command(*shlex.split(command.format(job=job_id)))
        return job_id

    async def running_on(self, job_id: str) -> str:
        """Wait until a job runs, and return its node."""

        async def running() -> str:
            return (await self.command("squeue", "--noheader", f"--jobs={job_id}", "--states=R", "--format=%N")).strip()

        return await until(running, seconds=120, every=0.2, what=f"{job_id} to run")


@pytest.fixture
async def site(site_lab: Stack) -> AsyncIterator[Site]:
    if SITE_POLICY.name != POLICY:
        await site_lab.set_policy(SITE_POLICY.model_copy(update={"name": POLICY}))
    async with site_lab.user("ada@acme.example") as ada, site_lab.user("grace@acme.example") as grace:
        yield Site(site_lab, (ada, grace))


def test_all_left_out_and_changed_cases_are_in_the_table() -> None:
    names = {case.name for case in CASES}
    assert {name for left_out in LEFT_OUT.values() for name in left_out} | CHANGED.keys() | RELEASED.keys() <= names


async def test_a_queue_of_all_kinds_of_jobs_runs_to_its_end_and_is_explained(site: Site) -> None:
    async with observe(site.lab.bus, site.lab.cluster) as observer:
        await until(lambda: observer.workers is not None, seconds=120, what="a heartbeat of the edge-agent")

        site.fill = await site.lab.slurm.sbatch(ALICE, RUNS_UNTIL_RELEASE, *FILL_OPTIONS)
        kept = await site.lab.slurm.sbatch(
            ALICE, RUNS_UNTIL_RELEASE, "-J", "kept", "-c", "2", "-C", "general-xs", "-t", "60"
        )
        site.node = await site.running_on(site.fill)
        reserved = f"nodes={await site.running_on(kept)}"
        until_release = ("starttime=now+1day", "duration=60", "accounts=lab", "flags=ignore_jobs")
        await site.command("scontrol", "create", "reservation", "reservationname=later", reserved, *until_release)

        await check_rejections(site)
        await check_explanations(site, [case for case in EXPLAINED if case not in APART])
        for case in APART:
            await check_explanations(site, [case])
        await submit_all(site)

        for job_id, job in site.jobs.items():
            for command in job.released:
                await site.command(*shlex.split(command.format(job=job_id)))
        for command in RELEASE_ALL:
            await site.command(*command.split())
        (site.lab.slurm.shared_dir / "let-go").touch()

        runs = {run for job_id, job in site.jobs.items() for run in job.runs(job_id)} | {site.fill, kept}
        reserving = [job_id for job_id, job in site.jobs.items() if "--reservation" in job.options]
        await all_ended(site, observer, {run for job_id in reserving for run in site.jobs[job_id].runs(job_id)})
        # While the reservation exists, no other job can use its node.
        await site.command("scontrol", "delete", "reservationname=later")
        await all_ended(site, observer, runs)

        events = await archived(site.people[0], runs)

        for kinds in (JOB_ENDS, {"job.completed"}, {"job.running"}):
            assert Counter(event.subject for event in events if event.kind in kinds) == Counter(runs)
        await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")

    async def nothing_left() -> bool:
        queue = await site.command("squeue", "--noheader")
        return not queue + await site.command("sinfo", "--noheader", "--Node", "--format=%N")

    await until(nothing_left, seconds=120, every=0.5, what="a Slurm without jobs and nodes")


async def submit_all(site: Site) -> None:
    """Submit the queue, three jobs at a time."""
    queue = [*enumerate(mixed_queue(JOBS, SEED))]

    async def some(first: int) -> None:
        last = ""
        for number, job in queue[first::3]:
            last = await site.submit(job, last, number)

    await asyncio.gather(*map(some, range(3)))


async def all_ended(site: Site, observer: Observer, runs: set[str]) -> None:
    """Wait for the end of these jobs.

    On a busy machine Slurm may miss the moment in which all components of the heterogeneous job could start. It tries
    again after two minutes, and the scaler may have given the job a pause meanwhile.
    """

    def ended() -> bool:
        return runs <= {job_id for job_id, kind in observer.job_events if kind in JOB_ENDS}

    try:
        await until(ended, seconds=600 + SECONDS_EACH * len(runs), every=0.5, what="the end of all jobs")
    except TimeoutError as error:
        waiting = await site.command("squeue", "--format=%i %j %T %r %S %N")
        raise AssertionError(f"{error}; the queue:\n{waiting}") from error


async def archived(user: User, runs: set[str]) -> list[Event]:
    """Wait until the archive has the ends of these jobs, and return all their events."""

    async def complete() -> list[Event] | None:
        events = [event for event in await user.history("job.*") if event.subject in runs]
        return events if runs <= {event.subject for event in events if event.kind in JOB_ENDS} else None

    return await until(complete, seconds=120, every=0.3, what="the archive of all ends")


async def check_explanations(site: Site, cases: Sequence[str]) -> None:
    """Submit a job of each case, and check that each is explained."""
    jobs = {case: await site.submit(sample(case), "", number) for number, case in enumerate(cases)}
    for case, job_id in jobs.items():
        await explained(site.people[0], job_id, *EXPLAINED[case])


async def explained(user: User, job_id: str, cause: str, pattern: str) -> None:
    """Wait for an explanation with this cause and a text that matches the pattern."""
    answer: Explanation | None = None

    async def matches() -> bool:
        nonlocal answer
        try:
            answer = await user.why(job_id)
        except UnexpectedAnswerError:
            return False
        return answer.cause == cause and re.search(pattern, answer.text) is not None

    try:
        await until(matches, seconds=120, every=0.1, what=f"an explanation of {job_id} like {pattern!r}")
    except TimeoutError as error:
        raise AssertionError(f"{error}; the last was {answer}") from error


async def check_rejections(site: Site) -> None:
    """Check that jobs which no shape fits are rejected, by sbatch and over HTTP."""
    with pytest.raises(CommandFailed, match="Requested node configuration is not available"):
        await site.lab.slurm.sbatch(BOB, "#!/bin/sh\ntrue\n", "--mem=300G")
    with pytest.raises(UnexpectedAnswerError, match="the largest worker without GPUs has 32"):
        await site.people[0].submit("#!/bin/sh\n#SBATCH -c 33\ntrue\n", {})
