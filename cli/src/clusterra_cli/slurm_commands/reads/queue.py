"""Reads the jobs of the queue as the commands need them: all that the caller sees, or some by their ids."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from clusterra_cli.slurm_commands.failures import TIMED_OUT, Away, NotKnown, Refused
from clusterra_cli.slurm_commands.fields.job_values import Job
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.reads.recent_submits import recent_submits
from clusterra_cli.slurm_commands.records import count, objects, text

JOB_ID = re.compile(r"([1-9][0-9]{0,9})(?:_(?:([0-9]{1,7})|\[([0-9,:%-]{1,400})\]))?")
MAX_READ_ALONE, READ_AT_ONCE = 1000, 8
"""Jobs that are missing in the list are read one by one up to this number: the list may be some seconds old."""
FEW_MISSING = 20
LISTS_AGAIN_SECONDS, LISTS_PAUSE_SECONDS = 4.0, 1.0
"""Where more jobs than a few that were submitted from here are missing, the list is read again for some seconds."""
MAX_TASKS = 100_000
MAX_DIGITS = 10
"""Slurm has no larger numbers of tasks."""


class Queue:
    """The jobs that Slurm knows now."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._me: tuple[int, str] | None = None

    @property
    def me(self) -> tuple[int, str]:
        """The uid and the name of the caller."""
        if self._me is None:
            profile = self._gateway.ask("GET", "/v1/users/me")
            self._me = count(profile, "uid"), text(profile, "name")
        return self._me

    def all(self) -> list[Job]:
        """All jobs that the caller sees, in the order of their ids.

        The list may be some seconds old, but has each job that was submitted from here: programs take one that is
        missing for completed.
        """
        jobs, until = self._listed(), time.monotonic() + LISTS_AGAIN_SECONDS
        while len(missing := self._recent_beside(jobs)) > FEW_MISSING and time.monotonic() < until:
            time.sleep(LISTS_PAUSE_SECONDS)
            jobs = self._listed()
        return self._with(jobs, missing[:MAX_READ_ALONE])

    def _recent_beside(self, jobs: Sequence[Job]) -> list[str]:
        """The ids of the jobs that were submitted from here a moment ago and are not among these."""
        known = {number for job in jobs for number in (job.id, job.array_id, count(job.record, "het_job_id"))}
        return [str(each) for each in recent_submits(self._gateway) if each not in known]

    def one(self, job_id: str) -> list[Job]:
        """The records of a job as it is now: several for an array. Raises NotKnown."""
        found = JOB_ID.fullmatch(job_id)
        if found is None:
            raise NotKnown
        jobs = [job for job in self._jobs(f"slurm/job/{found[1]}") if selects(job_id, job)]
        # A task that has not started is a part of the record of all these tasks.
        return [replace(job, task=int(found[2])) if found[2] and job.tasks else job for job in jobs]

    def some(self, ids: Sequence[str]) -> list[Job]:
        """The records of several jobs, as far as they are known. Raises Refused."""
        if len(ids) == 1 and ids[0].isdecimal():
            return self._known(ids[0])
        jobs = [job for job in self._listed() if any(selects(each, job) for each in ids)]
        return self._with(jobs, [each for each in dict.fromkeys(ids) if not any(selects(each, job) for job in jobs)])

    def _listed(self) -> list[Job]:
        return self._jobs("slurm/jobs/")

    def _with(self, jobs: list[Job], missing: Sequence[str]) -> list[Job]:
        """These jobs and the missing ones, as far as they are known, in the order of their ids."""
        if len(missing) > MAX_READ_ALONE:
            raise Refused(f"{len(missing)} of these jobs are not in the list of jobs: name at most {MAX_READ_ALONE}")
        if len(missing) > 1:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(READ_AT_ONCE) as threads:
                jobs += [job for found in threads.map(self._known, missing) for job in found]
        else:
            jobs += [job for each in missing for job in self._known(each)]
        return sorted({job.id: job for job in jobs}.values(), key=lambda job: job.id)

    def _known(self, job_id: str) -> list[Job]:
        try:
            return self.one(job_id)
        except NotKnown:
            return []

    def _jobs(self, path: str) -> list[Job]:
        answer = self._gateway.slurm(path)
        if "jobs" not in answer:
            raise Away(TIMED_OUT)
        records = objects(answer, "jobs")
        nameless = any(not text(each, "user_name") for each in records)
        uid, name = self.me if nameless else (None, "")
        jobs = [Job(each, name if count(each, "user_id") == uid else "") for each in records]
        return sorted(jobs, key=lambda job: job.id)


def selects(job_id: str, job: Job) -> bool:
    """Whether an id names a record: `12` the job or all of an array, `12_3` a task, `12_[3-5]` some."""
    found = JOB_ID.fullmatch(job_id)
    if found is None or int(found[1]) not in (job.id, job.array_id, count(job.record, "het_job_id")):
        return False
    if found[2] is None and found[3] is None:
        return True
    wanted = {int(found[2])} if found[2] else set(task_numbers(found[3]))
    if job.task_id is not None:
        return job.task_id in wanted
    return bool(wanted & set(task_numbers(job.tasks)))


def by_tasks(jobs: Sequence[Job]) -> Iterator[Job]:
    """Each task by itself, also those that have not started."""
    for job in jobs:
        if job.array_id and job.tasks:
            yield from (replace(job, task=number) for number in task_numbers(job.tasks))
        else:
            yield job


def task_numbers(tasks: str) -> list[int]:
    """The numbers of a text such as `1-5:2,8%3`. What was cut off is not known, and left out.

    The end of `1-28:3` is a task, which Slurm runs, though its own `squeue -r` leaves it out.
    """
    found: list[int] = []
    for item in tasks.partition("%")[0].split(","):
        numbers, _, step = item.partition(":")
        first, dash, last = numbers.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            continue
        if max(len(first), len(last), len(step)) > MAX_DIGITS:
            continue
        numbered = range(int(first), int(last or first) + 1, int(step) if step.isdecimal() and int(step) else 1)
        found += islice(numbered, MAX_TASKS - len(found))
    return found
