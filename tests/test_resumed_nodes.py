"""Operators resume drained nodes and the edge is held up, on a real Slurm: every job runs once, nothing is left."""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from functools import partial
from itertools import count

from clusterra_contracts.events import JOB_ENDS, Event, JobFact, WorkerFact
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.patience import patiently
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

SEEDS = int(os.environ.get("HISTORIES_SEEDS", "3"))
"""Number of random queues; `make test-histories` plays 30."""
AT_ONCE = 6
SECONDS_EACH = 15.0
"""Time limit per queue, whatever the number of concurrent queues."""


class Trouble:
    """Operators who resume drained nodes, and an edge that is held up, until cancelled."""

    def __init__(self, lab: Stack) -> None:
        self.counts: Counter[str] = Counter()
        self._lab = lab
        self._rng = random.Random(SEEDS)

    async def make(self) -> None:
        edge = self._lab.services["edge-agent"].pid
        try:
            while True:
                # Victims wait for an edge that is held up. Else they would be gone before anybody could resume them.
                self.counts["edge held up"] += 1
                os.kill(edge, signal.SIGSTOP)
                await asyncio.sleep(self._rng.uniform(0.2, 3.0))
                await self._resume_nodes()
                await asyncio.sleep(self._rng.uniform(0.0, 1.0))
                os.kill(edge, signal.SIGCONT)
                await asyncio.sleep(self._rng.uniform(0.2, 2.0))
        finally:
            os.kill(edge, signal.SIGCONT)

    async def _resume_nodes(self) -> None:
        shown = await self._lab.slurm.run("sinfo", "--noheader", "--Node", "--states=drained", "--format=%N")
        for name in sorted(set(shown.stdout.split())):
            if not self.counts["drains undone"] or self._rng.random() < 0.5:
                # The node may be gone by now.
                command = f"scontrol update nodename={name} state=resume && echo done || :"
                resumed = await self._lab.slurm.run("bash", "-c", command)
                self.counts["drains undone"] += "done" in resumed.stdout


async def play(user: User, seed: int) -> set[str]:
    """Submits short jobs with gaps about as long as the keep-alive time. Returns their ids."""
    rng = random.Random(seed)
    submitted = set()
    for number in range(rng.randint(2, 4)):
        await asyncio.sleep(rng.choice((0.0, 0.5, 1.9, 2.1, 3.0)))
        job = {"name": "resumed", "cpus_per_task": rng.choice((1, 2, 4)), "memory_per_cpu": 2 * GIB}
        script = f"#!/bin/bash\necho began\nsleep {rng.choice((0.0, 1.0, 2.5))}\necho ended\n"
        key = f"resumed-{seed}-{number}"
        submitted.add((await patiently(partial(user.submit, script, job, key=key))).job_id)
    return submitted


async def test_each_job_runs_once_while_nodes_are_resumed_and_the_edge_is_held_up(
    lab: Stack, ada: User, observer: Observer
) -> None:
    trouble = Trouble(lab)
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(seed: int) -> set[str]:
        async with limit:
            return await play(ada, seed)

    making = asyncio.create_task(trouble.make())
    try:
        submitted = set[str]().union(*await asyncio.gather(*map(one, range(SEEDS))))
        # A few queues may end before a drain was there to undo.
        more = count(SEEDS)

        async def undone() -> bool:
            if not trouble.counts["drains undone"]:
                submitted.update(await one(next(more)))
            return trouble.counts["drains undone"] > 0

        await until(undone, seconds=180, every=0.1, what="a drain that is undone")

        async def complete() -> list[Event] | None:
            events = await ada.history("job.*")
            ended = {event.subject for event in events if event.kind in JOB_ENDS}
            return events if submitted <= ended else None

        seconds = 180 + SECONDS_EACH * SEEDS
        events = await until(complete, seconds=seconds, every=1.0, what="the end of all jobs")
    finally:
        making.cancel()
        await asyncio.wait([making])
    await until(lambda: observer.workers == {}, seconds=180, what="an empty fleet")

    workers = Counter(event.kind for event in await ada.history("worker.*") if isinstance(event.data, WorkerFact))
    reasons = [event.data for event in await ada.history("scale.decided")]
    trouble.counts["taken back"] = sum(str(reason).count("kept: not drained or busy") for reason in reasons)

    print(f"{SEEDS} queues, {len(submitted)} jobs: {dict(trouble.counts)}; {dict(workers)}", file=sys.stderr)

    ends = [event.data for event in events if event.kind in JOB_ENDS and event.subject in submitted]
    states = Counter(fact.state for fact in ends if isinstance(fact, JobFact))
    begun = Counter(event.subject for event in events if event.kind == "job.running" and event.subject in submitted)

    assert states == Counter(COMPLETED=len(submitted))
    assert begun == Counter(submitted), "a job ran twice"
    for job_id in submitted:
        assert await ada.output(job_id) == "began\nended\n"
    assert not workers.keys() & {"worker.failed", "worker.lost"}
    assert trouble.counts["drains undone"] > 0
