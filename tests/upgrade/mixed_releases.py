"""A job runs to its end whichever services are of an earlier release: `make test-upgrade FROM=<git ref>`.

Each service alone is taken from the earlier release. Then all are, and they are updated one after another, and rolled
back one after another. After every step the services are ready, and a job of a user runs to its end.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from clusterra_contracts.events import JOB_ENDS
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.api_errors import UnexpectedAnswerError
from clusterra_lab.parts.user import User
from clusterra_lab.stack.fleet import RunningService
from clusterra_lab.stack.services import services
from clusterra_lab.stack.stack import Stack
from upgrade.earlier_release import Release, earlier_release

SERVICES = ("gateway", "proxy", "scaler", "events", "edge-agent")
SCRIPT = '#!/bin/bash\necho "ran as $(id -u)"\n'
JOB_SECONDS = 120.0


@pytest.fixture(scope="session")
async def earlier(tmp_path_factory: pytest.TempPathFactory) -> Release:
    ref = os.environ.get("CLUSTERRA_UPGRADE_FROM")
    if not ref:
        pytest.fail("name the earlier release: make test-upgrade FROM=<git ref>")
    return await earlier_release(ref, tmp_path_factory.mktemp("earlier"))


class Releases:
    """The services of a lab, each of this release or the earlier one."""

    def __init__(self, lab: Stack, earlier: Release) -> None:
        self._lab = lab
        self._pythons = {"this": sys.executable, "earlier": earlier.python}
        self._logs = lab.home.logs
        self.of = dict.fromkeys(SERVICES, "this")

    async def switch(self, name: str, release: str) -> None:
        """Stop a service in order, and start that of a release in its place, with the same settings."""
        if self.of[name] == release:
            return
        running = self._lab.services[name]
        assert await running.stop() == 0, f"{name} of {self.of[name]} did not stop in order"
        (command,) = [command for command in services(self._lab.parts, {}) if command.name == name]
        port = running.health_url.rpartition(":")[2]
        process = await start(
            name,
            [self._pythons[release], "-m", command.module],
            log=self._logs / f"{name}-{release}.log",
            env={**command.environment, "CLUSTERRA_HEALTH_HOST": "127.0.0.1", "CLUSTERRA_HEALTH_PORT": port},
        )
        self._lab.services[name] = RunningService(process, running.health_url)
        self.of[name] = release

    async def ready(self) -> None:
        """Wait until all services are ready. Raises TimeoutError, ProcessDied."""
        for service in self._lab.services.values():
            await service.ready()

    def __str__(self) -> str:
        earlier = [name for name, release in self.of.items() if release == "earlier"]
        return f"earlier: {', '.join(earlier) or 'none'}"


@pytest.fixture(scope="module")
async def releases(lab: Stack, earlier: Release) -> AsyncIterator[Releases]:
    mixed = Releases(lab, earlier)
    yield mixed
    for name in SERVICES:
        await mixed.switch(name, "this")
    await mixed.ready()


async def run_job(lab: Stack, user: User, releases: Releases) -> None:
    """A job through all services: submitted, run by a worker, its output read, its end in the archive."""
    await releases.ready()
    job = {"name": "mixed", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}

    async def submitted() -> str | None:
        # A service that has just started may still be unknown to the others.
        with suppress(UnexpectedAnswerError):
            return (await user.submit(SCRIPT, job)).job_id
        return None

    job_id = await until(submitted, seconds=90, every=0.5, what=f"a submit to be accepted ({releases})")

    async def ended() -> str | None:
        with suppress(UnexpectedAnswerError):
            state = (await user.job(job_id)).state
            return state if state not in {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING"} else None
        return None

    async def archived() -> bool:
        with suppress(UnexpectedAnswerError):
            return any(event.kind in JOB_ENDS and event.subject == job_id for event in await user.history("job.*"))
        return False

    state = await until(ended, seconds=JOB_SECONDS, every=0.2, what=f"the end of job {job_id} ({releases})")
    assert state == "COMPLETED", f"{state} ({releases})"
    assert await user.output(job_id) == f"ran as {user.profile.uid}\n"
    await until(archived, seconds=60, every=0.2, what=f"the end of job {job_id} in the archive ({releases})")
    sys.stdout.write(f"\njob {job_id} completed; {releases}")


def dead_letters(directory: Path) -> list[str]:
    """What the services logged about messages that they could not read."""
    found = []
    for log in sorted(directory.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()
        found += [f"{log.name}: {line}" for line in lines if '"dead_letter"' in line or "handler_failed" in line]
    return found


@pytest.mark.parametrize("name", SERVICES)
async def test_one_service_is_of_the_earlier_release(lab: Stack, ada: User, releases: Releases, name: str) -> None:
    await releases.switch(name, "earlier")
    await run_job(lab, ada, releases)

    await releases.switch(name, "this")
    await releases.ready()


async def test_services_are_updated_one_after_another_and_rolled_back(
    lab: Stack, ada: User, releases: Releases, observer: Observer
) -> None:
    for name in SERVICES:
        await releases.switch(name, "earlier")
    await run_job(lab, ada, releases)
    for name in SERVICES:
        await releases.switch(name, "this")
        await run_job(lab, ada, releases)
    # Any order: back begins with the last one but two.
    for name in (*SERVICES[2:], *SERVICES[:2]):
        await releases.switch(name, "earlier")
        await run_job(lab, ada, releases)
    for name in reversed(SERVICES):
        await releases.switch(name, "this")
        await run_job(lab, ada, releases)

    await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")


async def test_no_message_was_unreadable_to_the_other_release(lab: Stack, releases: Releases) -> None:
    assert dead_letters(lab.home.logs) == []
