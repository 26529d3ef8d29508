"""Gateways and proxies that are killed at random moments while 50 clients send one key: one job for each key.

CI kills few of them, `make test-crashes` 200.
"""

import asyncio
import os
import random
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, TCPConnector
from clusterra_lab.stack.fleet import RunningService
from submit_replicas import SUBMISSION, Replicas

CRASHES = int(os.environ.get("CRASHES", "6"))
SEED = int(os.environ.get("CRASHES_SEED", "1"))
REPEATS = 50
CRASHES_AT_ONCE = 8
"""So many crashes follow each other, each with a key of its own, until all their keys have settled."""
LATEST_CRASH_SECONDS = 0.12
"""A crash comes at most so long after the clients have begun; most submits have ended by then."""
SETTLES_SECONDS = 600.0
"""An attempt that is cut off settles after 50 s, and the next one may be cut off too."""
LONGEST_PAUSE_SECONDS = 3.0
TEMPORARY = (409, 502, 503, 504)


@dataclass
class Outcomes:
    """What the clients met: statuses, and `cut off` for a connection that ended without an answer."""

    answers: Counter[str] = field(default_factory=Counter)
    cut_off_keys: set[str] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)
    """From the first submit with a key until its last client has the job."""


@dataclass
class Clients:
    """The clients of all keys."""

    replicas: Replicas
    sessions: list[ClientSession]
    """One for each gateway, with as many connections as there are clients."""
    outcomes: Outcomes = field(default_factory=Outcomes)

    async def submit_by_all(self, key: str) -> None:
        """Send a key by 50 clients at once, each until it has a job. Asserts that it is the same one, and alone."""
        began = time.monotonic()
        async with asyncio.timeout(SETTLES_SECONDS):
            jobs = set(await asyncio.gather(*(self._submit(number % 2, key) for number in range(REPEATS))))

        self.outcomes.seconds.append(time.monotonic() - began)
        assert len(jobs) == 1, (key, jobs)
        assert await self.replicas.jobs(key) == list(jobs)
        await self._cancel(jobs.pop())

    async def _submit(self, gateway: int, key: str) -> str:
        """Send a key, to the other gateway after each failure, until there is an answer: the id of the job."""
        while True:
            status, answer = await self._once(gateway, key)
            self.outcomes.answers[str(status or "cut off")] += 1
            if status == 201:
                return str(answer["job_id"])
            assert status in (None, *TEMPORARY), (status, answer)
            if status is None or status == 504:
                self.outcomes.cut_off_keys.add(key)
            gateway = 1 - gateway
            await asyncio.sleep(random.uniform(0.1, 1.0) * LONGEST_PAUSE_SECONDS)

    async def _once(self, gateway: int, key: str) -> tuple[int | None, dict[str, Any]]:
        path = f"/v1/clusters/{self.replicas.ada.cluster}/jobs/submit"
        try:
            async with self.sessions[gateway].post(path, json=SUBMISSION, headers={"Idempotency-Key": key}) as answer:
                return answer.status, await answer.json()
        except (ClientError, ConnectionError):
            return None, {}

    async def _cancel(self, job_id: str) -> None:
        cancelled = await self.replicas.lab.slurm.run("scancel", job_id)
        assert cancelled.returncode == 0, cancelled


@pytest.fixture
async def clients(replicas: Replicas) -> AsyncIterator[Clients]:
    jar = replicas.ada.session.cookie_jar
    async with (
        ClientSession(replicas.urls[0], cookie_jar=jar, connector=TCPConnector(limit=0)) as first,
        ClientSession(replicas.urls[1], cookie_jar=jar, connector=TCPConnector(limit=0)) as second,
    ):
        yield Clients(replicas, [first, second])


async def crash(victims: list[RunningService]) -> None:
    """Kill services at once, start them again, and wait until they are ready."""
    for victim in victims:
        victim.kill()
    for victim in victims:
        await victim.start()
    for victim in victims:
        await victim.ready()


async def test_one_job_for_each_key_whatever_is_killed(replicas: Replicas, clients: Clients) -> None:
    random.seed(SEED)
    for first in range(0, CRASHES, CRASHES_AT_ONCE):
        # The keys of these crashes settle without further ones: otherwise each attempt might be cut off again.
        async with asyncio.TaskGroup() as keys:
            for number in range(first, min(first + CRASHES_AT_ONCE, CRASHES)):
                keys.create_task(clients.submit_by_all(str(uuid.uuid4())))
                await asyncio.sleep(random.uniform(0, LATEST_CRASH_SECONDS))
                await crash(_victims(replicas, number))
        print(f"{min(first + CRASHES_AT_ONCE, CRASHES)} of {CRASHES} crashes, one job for each key", flush=True)

    outcomes = clients.outcomes
    slowest = ", ".join(f"{seconds:.0f}" for seconds in sorted(outcomes.seconds)[-5:])
    print(f"{CRASHES} crashes, {len(outcomes.cut_off_keys)} keys cut off; the slowest keys took {slowest} s")
    print(f"answers: {dict(outcomes.answers)}")
    assert outcomes.cut_off_keys, "no crash met a submit"


def _victims(replicas: Replicas, number: int) -> list[RunningService]:
    """One of the four, and every fifth time two of them."""
    gateways, proxies = replicas.gateways, replicas.proxies
    if number % 5 == 4:
        return random.choice([proxies, gateways, [gateways[0], proxies[1]]])
    return [random.choice([*gateways, *proxies])]
