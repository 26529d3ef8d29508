"""Random queues on a real Slurm: no job ever runs on a worker that was named as a victim."""

import asyncio
import os
import random
import re
from collections import Counter
from collections.abc import Set
from datetime import datetime
from functools import partial

from clusterra_contracts.events import JOB_ENDS, Event, JobFact, ScaleFact, WorkerFact
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.patience import patiently
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

HISTORIES = int(os.environ.get("HISTORIES", "8"))
"""Number of random queues; `make test-histories` plays 200."""
SEED = int(os.environ.get("HISTORIES_SEED", "1"))
AT_ONCE = 8
SECONDS_EACH = 12.0
"""Time limit per queue, whatever the number of concurrent queues."""


class History:
    """The random jobs of one user: a few of any family, with gaps about as long as the keep-alive time (2 s)."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._random = random.Random(f"{SEED}/{number}")
        self.ended_by_itself: set[str] = set()
        self.cancelled: set[str] = set()

    async def play(self, user: User) -> None:
        """Submit and cancel jobs, without waiting for them."""
        for number in range(self._random.randint(1, 4)):
            await asyncio.sleep(self._random.choice((0.0, 0.5, 1.9, 2.1, 3.0)))
            job = {
                "name": "history",
                "nodes": self._random.choice(("1", "1", "1", "2")),
                "cpus_per_task": self._random.choice((1, 2, 4)),
                "memory_per_cpu": self._random.choice((2, 4, 8)) * GIB,
            }
            seconds = self._random.choice((0.0, 0.0, 1.0, 2.5))
            script = f"#!/bin/bash\necho began\nsleep {seconds}\necho ended\n"
            key = f"history-{self._number}-{number}"
            submitted = await patiently(partial(user.submit, script, job, key=key))
            if self._random.random() < 0.15:
                await asyncio.sleep(self._random.uniform(0.0, 1.5))
                await patiently(partial(user.cancel, submitted.job_id))
                self.cancelled.add(submitted.job_id)
            else:
                self.ended_by_itself.add(submitted.job_id)


async def test_random_queues_lose_no_job_to_a_drained_worker(lab: Stack, ada: User, observer: Observer) -> None:
    histories = [History(number) for number in range(HISTORIES)]
    limit = asyncio.Semaphore(AT_ONCE)

    async def play(history: History) -> None:
        async with limit:
            await history.play(ada)

    await asyncio.gather(*map(play, histories))
    undisturbed = {job_id for history in histories for job_id in history.ended_by_itself}
    submitted = undisturbed | {job_id for history in histories for job_id in history.cancelled}

    async def complete() -> list[Event] | None:
        events = await ada.history("job.*")
        ended = {event.subject for event in events if event.kind in JOB_ENDS}
        return events if submitted <= ended else None

    seconds = 180 + SECONDS_EACH * HISTORIES / AT_ONCE

    events = await until(complete, seconds=seconds, every=1.0, what="the end of all jobs")
    await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")

    ends = {event.subject: event.data for event in events if event.kind in JOB_ENDS and event.subject in submitted}
    jobs = [fact for fact in ends.values() if isinstance(fact, JobFact)]

    states = {job.job_id: job.state for job in jobs if job.job_id in undisturbed}

    assert states == dict.fromkeys(undisturbed, "COMPLETED")

    begun = Counter(event.subject for event in events if event.kind == "job.running" and event.subject in submitted)
    ran_twice = [event for event in events if begun[event.subject] > 1]
    assert ran_twice == [], f"a job ran twice: {slurm_lines(lab, {event.subject for event in ran_twice})}"
    for job_id in undisturbed:
        assert await ada.output(job_id) == "began\nended\n"

    victims = await victim_times(ada)
    hosts = {node for job in jobs for node in job.nodes}

    assert hosts <= set(victims), "a worker was removed without being named as a victim"
    for job in jobs:
        for node in job.nodes:
            # Slurm cuts the time of an end to full seconds, so it is never later than the real end.
            assert job.ended_at is not None
            assert job.ended_at <= victims[node], f"{node} was named as a victim while {job.job_id} ran there"


def slurm_lines(lab: Stack, job_ids: Set[str]) -> list[str]:
    """What slurmctld logged about jobs: it names the cause where it queues one again."""
    about = re.compile(rf"JobId=({'|'.join(job_ids)})\b")
    log = (lab.slurm.log_dir / "slurmctld.log").read_text(errors="replace")
    return [line for line in log.splitlines() if about.search(line)]


async def victim_times(user: User) -> dict[str, datetime]:
    """When each worker was first named as a victim; also checks that no other worker was stopped."""
    named: dict[str, datetime] = {}
    for event in sorted(await user.history("scale.decided"), key=lambda event: event.time):
        assert isinstance(event.data, ScaleFact)
        for change in event.data.changes:
            for victim in change.victims:
                named.setdefault(victim, event.time)
    for event in await user.history("worker.*"):
        if event.kind == "worker.priced":
            continue
        assert isinstance(event.data, WorkerFact)
        assert event.kind not in ("worker.failed", "worker.lost"), event.data
        assert event.kind != "worker.stopped" or event.time >= named[event.data.worker]
    return named
