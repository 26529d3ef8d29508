"""Nodes that Slurm drained by itself, that an operator drained, and that slurmctld has forgotten, on a real Slurm."""

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clusterra_lab.demo.observer import Observer
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from gates import closed_gate
from site_lab import SITE_POLICY

JOB = {"name": "faulty", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}


@pytest.fixture
def lab(site_lab: Stack) -> Stack:
    return site_lab


@contextmanager
def failing_epilog(lab: Stack) -> Iterator[None]:
    epilog = lab.slurm.spool_dir.parent / "scripts" / "epilog"
    before = epilog.read_text()
    epilog.write_text("#!/bin/sh\nexit 1\n")
    try:
        yield
    finally:
        epilog.write_text(before)


async def ended(observer: Observer, job_id: str) -> None:
    await until(lambda: (job_id, "job.completed") in observer.job_events, seconds=120, what=f"the end of job {job_id}")


async def nodes(lab: Stack) -> dict[str, str]:
    """Slurm's nodes and their states."""
    shown = await lab.slurm.run("sinfo", "--noheader", "--Node", "--format=%N %T")
    return dict(line.split() for line in shown.stdout.splitlines())


async def the_node(lab: Stack, state: str) -> str:
    """Waits for a node in this state."""

    async def found() -> str | None:
        return next((name for name, each in (await nodes(lab)).items() if each == state), None)

    return await until(found, seconds=120, every=0.1, what=f"a node that is {state}")


async def empty(lab: Stack, observer: Observer) -> None:
    async def gone() -> bool:
        return observer.workers == {} and not await nodes(lab)

    await until(gone, seconds=120, every=0.2, what="an empty fleet")


async def told(user: User, reason: str) -> None:
    """Waits for the event of a decision with this reason."""

    async def found() -> bool:
        return any(reason in str(event.data) for event in await user.history("scale.decided"))

    await until(found, seconds=60, every=0.5, what=f"a decision with the reason {reason}")


async def test_a_worker_that_slurm_drained_is_removed_after_its_jobs(lab: Stack, ada: User, observer: Observer) -> None:
    of_short, of_long = closed_gate(lab), closed_gate(lab)
    with failing_epilog(lab):
        # The first job fails the epilog while the second still runs on the same worker.
        short, long = [await ada.submit(f"#!/bin/bash\n{gate.wait}", JOB) for gate in (of_short, of_long)]
        for job in (short, long):
            await until(lambda: observer.states.get(job.job_id) == "RUNNING", seconds=120, what="both jobs to run")  # noqa: B023
        of_short.open()
        await ended(observer, short.job_id)
        await the_node(lab, "draining")
        of_long.open()
        await ended(observer, long.job_id)
        await empty(lab, observer)

    await told(ada, "drained by Slurm (Epilog error) and idle")
    assert await ada.output(long.job_id) == ""


async def test_a_worker_that_an_operator_drained_stays_until_it_is_resumed(
    lab: Stack, ada: User, observer: Observer
) -> None:
    gate = closed_gate(lab)
    first = await ada.submit(f"#!/bin/bash\n{gate.wait}", JOB)
    name = await the_node(lab, "mixed")
    await lab.slurm.run("scontrol", "update", f"nodename={name}", "state=drain", "reason=disk is broken")
    gate.open()
    await ended(observer, first.job_id)

    second = await ada.submit("#!/bin/bash\ntrue\n", JOB)
    await ended(observer, second.job_id)

    async def only_that_one() -> bool:
        return sum((observer.workers or {}).values()) == 1 and set(await nodes(lab)) == {name}

    await until(only_that_one, seconds=120, every=0.2, what="the removal of the other worker")
    drains = [event.data for event in await ada.history("node.drained")]
    assert any("disk is broken" in str(fact) for fact in drains)
    await lab.slurm.run("scontrol", "update", f"nodename={name}", "state=resume")
    await empty(lab, observer)


@pytest.fixture
async def lasting_workers(lab: Stack, observer: Observer) -> AsyncIterator[None]:
    """Idle workers stay, and booting ones have little time. The fleet is empty before and after."""
    await empty(lab, observer)
    await lab.set_policy(SITE_POLICY.model_copy(update={"idle_seconds": 600.0, "boot_timeout_seconds": 10.0}))
    yield
    await lab.set_policy(SITE_POLICY)
    await empty(lab, observer)


@pytest.mark.usefixtures("lasting_workers")
async def test_a_worker_that_slurmctld_has_forgotten_is_replaced(lab: Stack, ada: User, observer: Observer) -> None:
    states = lab.slurm.spool_dir.parent / "state"
    # It saves its state now. Otherwise that may still have nodes that have been deleted since.
    assert (await lab.slurm.run("scontrol", "reconfigure")).returncode == 0
    await until(lab.slurm.admits, seconds=60, what="Slurm to accept jobs", every=0.1)
    saved = save(states)
    first = await ada.submit("#!/bin/bash\ntrue\n", JOB)
    await ended(observer, first.job_id)
    forgotten = await the_node(lab, "idle")

    # As after a crash before slurmctld has saved the registration.
    await lab.slurm["slurmctld"].kill()
    restore(saved, states)
    await lab.slurm["slurmctld"].start()
    assert forgotten not in await nodes(lab)
    waiting = await ada.submit("#!/bin/bash\ntrue\n", JOB)
    await ended(observer, waiting.job_id)

    # The replacement may be bought, and run the job, before the worker is removed.
    await told(ada, f"{forgotten} served for")
    assert forgotten not in await nodes(lab)

    async def one_left() -> bool:
        return sum((observer.workers or {}).values()) == len(await nodes(lab)) == 1

    await until(one_left, seconds=60, every=0.2, what="the end of the worker that was forgotten")


def save(states: Path) -> dict[str, bytes]:
    """slurmctld's saved nodes."""
    return {path.name: path.read_bytes() for path in states.glob("node_state*")}


def restore(saved: dict[str, bytes], states: Path) -> None:
    for path in states.glob("node_state*"):
        if path.name in saved:
            path.write_bytes(saved[path.name])
        else:
            shutil.move(path, path.with_name(f"unsaved-{path.name}"))


PER_SOCKET = {
    "name": "per-socket",
    "tasks": 2,
    "minimum_nodes": 1,
    "maximum_nodes": 1,
    "tasks_per_socket": 2,
    "memory_per_cpu": GIB,
}
"""Workers have sockets of one core, and no snapshot tells what a job asks of a socket."""


async def test_a_job_that_slurm_does_not_start_keeps_no_worker(lab: Stack, ada: User, observer: Observer) -> None:
    await empty(lab, observer)

    job = await ada.submit("#!/bin/bash\ntrue\n", PER_SOCKET)
    await the_node(lab, "idle")

    async def held_back() -> bool:
        return "Slurm did not start it on idle workers" in (await ada.why(job.job_id)).text

    await until(held_back, seconds=240, every=1.0, what="the job to be held back")
    await empty(lab, observer)
    await ada.cancel(job.job_id)
