"""Random submits of several users, each repeated with its key until it is answered, and some cancelled again."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from aiohttp import ClientError
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.parts.api_errors import UnexpectedAnswerError
from clusterra_lab.parts.user import SubmittedJob, User

SCRIPT = '#!/bin/bash\necho "began $SLURM_JOB_ID"\nsleep {seconds}\necho "ended $SLURM_JOB_ID"\n'
LONGEST_JOB_SECONDS = 25
CANCELLED = 0.08
"""The share of jobs that are cancelled."""
RETRY_SECONDS = 2.0


@dataclass
class Load:
    """What was submitted. A job is named by its key, so that accounting shows a key that became two jobs."""

    users: list[User]
    rng: random.Random
    accepted: dict[str, str] = field(default_factory=dict)
    """Key -> id of the job."""
    accepted_at: dict[str, float] = field(default_factory=dict)
    """Key -> when the job was accepted, in seconds of the monotonic clock."""
    refused: dict[str, str] = field(default_factory=dict)
    """Key -> why the submit was refused for good."""
    answers: Counter[str] = field(default_factory=Counter)
    """Answers and errors that made the client repeat a submit, by kind."""

    async def run(self, stop: asyncio.Event, pause_seconds: float) -> None:
        """Submit at random moments until `stop`, then wait for the answers to all submits."""
        async with asyncio.TaskGroup() as submits:
            number = 0
            while not stop.is_set():
                number += 1
                submits.create_task(self._submit(f"soak-{number:05}", self.rng.choice(self.users)))
                await asyncio.sleep(self.rng.expovariate(1 / pause_seconds))

    async def _submit(self, key: str, user: User) -> None:
        script = SCRIPT.format(seconds=self.rng.randint(1, LONGEST_JOB_SECONDS))
        job: dict[str, object] = {"name": key, "cpus_per_task": self.rng.choice((1, 1, 2)), "memory_per_cpu": 2 * GIB}
        cancelled, after = self.rng.random() < CANCELLED, self.rng.uniform(0, 10)
        submitted = await self._until_answered(key, user, script, job)
        if submitted is not None:
            self.accepted[key], self.accepted_at[key] = submitted.job_id, time.monotonic()
            if cancelled:
                await asyncio.sleep(after)
                await self._cancel(user, submitted.job_id)

    async def _until_answered(self, key: str, user: User, script: str, job: dict[str, object]) -> SubmittedJob | None:
        """Repeat a submit with its key until it is accepted, or refused for good (None)."""
        while True:
            submitted = await self._try(key, user, script, job)
            if submitted is not None or key in self.refused:
                return submitted
            await asyncio.sleep(RETRY_SECONDS * self.rng.uniform(0.5, 1.5))

    async def _try(self, key: str, user: User, script: str, job: dict[str, object]) -> SubmittedJob | None:
        try:
            return await user.submit(script, job, key=key)
        except (ClientError, TimeoutError) as error:
            self.answers[type(error).__name__] += 1
        except UnexpectedAnswerError as error:
            status = str(error).split(": ")[1]
            self.answers[status] += 1
            if status in ("400", "401", "403", "404", "422"):
                self.refused[key] = str(error)
        return None

    async def _cancel(self, user: User, job_id: str) -> None:
        try:
            await user.cancel(job_id)
        except (ClientError, TimeoutError, UnexpectedAnswerError) as error:
            # The job may have ended, or the cluster may be in trouble: it then simply runs to its end.
            self.answers[f"cancel {type(error).__name__}"] += 1
