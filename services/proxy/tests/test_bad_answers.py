"""Unreadable records in a real slurmrestd's answers: each is shown, can be cancelled, and hurts nothing else."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from bad_answers import BadAnswers
from clusterra_contracts.bus.topology import CONDITIONS
from clusterra_contracts.condition import ClusterCondition
from clusterra_contracts.identity import JobId, SlurmUser
from clusterra_contracts.queue import QueueSnapshot
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from proxy_world import ProxyWorld, find_node, find_pending, find_running, proxy_world
from slurm_world import SlurmWorld

SLEEP = "#!/bin/sh\nsleep 300\n"


@pytest.fixture(scope="module")
async def answers(slurm: SlurmWorld, workers: None) -> AsyncIterator[BadAnswers]:
    del workers
    relay = BadAnswers(slurm.cluster.slurmrestd_url)
    async with relay.serve():
        yield relay


@pytest.fixture(scope="module")
async def spoiled(
    slurm: SlurmWorld, answers: BadAnswers, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ProxyWorld]:
    async with proxy_world(slurm, tmp_path_factory.mktemp("spoiled"), "bad", slurmrestd_url=answers.url) as world:
        yield world


async def degraded(proxy: ProxyWorld) -> list[str]:
    """The reasons why the cluster is degraded."""
    found = await bus.last(
        proxy.client, f"KV_{CONDITIONS.name}", f"$KV.{CONDITIONS.name}.{proxy.ref.key}", ClusterCondition
    )
    return [each.reason for each in found[0].degraded] if found else []


def runs_on_a_busy_node(snapshot: QueueSnapshot, job_id: str) -> bool:
    """Whether the job runs, and a list of nodes that was read after its start shows that."""
    job = find_running(snapshot, job_id)
    node = find_node(snapshot, job.nodes[0]) if job is not None else None
    return node is not None and not node.idle


@pytest.fixture
async def bad_node(spoiled: ProxyWorld, answers: BadAnswers, slurm: SlurmWorld) -> AsyncIterator[QueueSnapshot]:
    """A snapshot in which the record of the idle node w2 is unreadable, and that of w1 is not."""
    await spoiled.until_snapshot(lambda each: (node := find_node(each, "w2")) is not None and node.idle)

    def spoil(record: dict[str, Any]) -> None:
        if record.get("name") == "w2":
            record["alloc_cpus"] = "a secret"

    answers.spoil = spoil
    # Slurm lists its nodes only when one has changed.
    done = await slurm.cluster.run("scontrol", "update", "nodename=w1", "comment=changed")
    assert done.returncode == 0
    yield await spoiled.until_snapshot(lambda each: each.unreadable_nodes == 1)
    answers.spoil = lambda record: None
    await slurm.cluster.run("scontrol", "update", "nodename=w1", "comment=changed again")
    await spoiled.until_snapshot(lambda each: each.unreadable_nodes == 0)


async def test_an_unreadable_node_counts_as_busy_and_others_run_jobs(
    bad_node: QueueSnapshot, spoiled: ProxyWorld, alice: SlurmUser
) -> None:
    bad, good = find_node(bad_node, "w2"), find_node(bad_node, "w1")
    job_id = (await spoiled.submit(alice)).job_id
    ended = await spoiled.wait_for_end(alice, job_id)

    assert bad is not None
    assert good is not None
    assert (bad.idle, bad.cpus_allocated, bad.memory_allocated_mib) == (False, bad.cpus, bad.memory_mib)
    assert "UNREADABLE" in bad.states
    assert good.idle
    assert ended.state == "COMPLETED"


@dataclass(frozen=True)
class BadJobs:
    """Jobs of one user whose records are unreadable, each by another field, and a snapshot that shows them."""

    owner: SlurmUser
    waiting: JobId
    stateless: JobId
    running: JobId
    unnamed: JobId
    snapshot: QueueSnapshot


def spoil_jobs(record: dict[str, Any]) -> None:
    if record.get("name") in ("bad-waiting", "bad-running"):
        record["cpus"] = {"set": True, "infinite": False, "number": "a secret"}
    elif record.get("name") == "bad-state":
        record["job_state"] = ["a secret", 7]
    elif record.get("name") == "bad-id":
        record["job_id"] = "a secret"


async def submit_bad_jobs(proxy: ProxyWorld, owner: SlurmUser) -> BadJobs:
    waiting = (await proxy.submit(owner, name="bad-waiting", hold=True)).job_id
    stateless = (await proxy.submit(owner, name="bad-state", hold=True)).job_id
    running = (await proxy.submit(owner, SLEEP, name="bad-running")).job_id
    unnamed = (await proxy.submit(owner, name="bad-id", hold=True)).job_id

    def shows_all(each: QueueSnapshot) -> bool:
        shown = all(find_pending(each, job_id) is not None for job_id in (waiting, stateless, unnamed))
        return shown and each.unreadable_jobs >= 4 and runs_on_a_busy_node(each, running)

    return BadJobs(owner, waiting, stateless, running, unnamed, await proxy.until_snapshot(shows_all))


@pytest.fixture(scope="module")
async def bad(spoiled: ProxyWorld, answers: BadAnswers, slurm: SlurmWorld) -> AsyncIterator[BadJobs]:
    """Unreadable jobs that the tests share and do not change. The test that needs idle nodes comes before them."""
    answers.spoil = spoil_jobs
    jobs = await submit_bad_jobs(spoiled, slurm.new_user())
    yield jobs
    answers.spoil = lambda record: None
    await slurm.cluster.run("scancel", jobs.waiting, jobs.stateless, jobs.running, jobs.unnamed)


async def test_unreadable_jobs_are_shown_with_the_field_that_is_wrong(spoiled: ProxyWorld, bad: BadJobs) -> None:
    wrong = {bad.waiting: "Unreadable: cpus", bad.stateless: "Unreadable: job_state"}

    groups = {job_id: find_pending(bad.snapshot, job_id) for job_id in wrong}
    reasons = {job_id: (await spoiled.job(bad.owner, job_id)).reason for job_id in wrong}

    assert reasons == wrong
    assert {job_id: group and (group.count, group.uid, group.reason) for job_id, group in groups.items()} == {
        job_id: (0, bad.owner.uid, reason) for job_id, reason in wrong.items()
    }
    assert find_running(bad.snapshot, bad.running) is not None


async def test_unreadable_jobs_are_listed_with_what_is_known(spoiled: ProxyWorld, bad: BadJobs) -> None:
    listed = (await spoiled.jobs(bad.owner)).jobs

    states = {job.job_id: job.state for job in listed}
    assert states == {bad.waiting: "PENDING", bad.stateless: "UNKNOWN", bad.running: "RUNNING"}


async def test_an_admin_sees_jobs_whose_ids_are_unreadable(spoiled: ProxyWorld, bad: BadJobs, bob: SlurmUser) -> None:
    listed = (await spoiled.jobs(bob, admin=True)).jobs

    (unnamed,) = (job for job in listed if job.job_id == bad.unnamed)
    assert (unnamed.state, unnamed.reason) == ("UNKNOWN", "Unreadable: job_id")


async def test_others_run_beside_unreadable_jobs(spoiled: ProxyWorld, bad: BadJobs, bob: SlurmUser) -> None:
    other = (await spoiled.submit(bob)).job_id

    ended = await spoiled.wait_for_end(bob, other)

    assert ended.state == "COMPLETED"


@pytest.mark.usefixtures("bad")
async def test_the_log_names_unreadable_records_without_their_values(spoiled: ProxyWorld) -> None:
    text = spoiled.log.read_text()

    assert "record_unreadable" in text
    assert "a secret" not in text


@pytest.mark.usefixtures("bad")
async def test_unreadable_jobs_are_cancelled_and_their_events_published(
    spoiled: ProxyWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    jobs = await submit_bad_jobs(spoiled, alice)

    for job_id in (jobs.waiting, jobs.stateless, jobs.running):
        await spoiled.cancel(alice, job_id)
    await spoiled.cancel(bob, jobs.unnamed, admin=True)

    async def ended() -> bool:
        return (await spoiled.job(alice, jobs.waiting)).state == "CANCELLED"

    async def events_published() -> bool:
        lines = await spoiled.event_lines(jobs.running, jobs.waiting)
        return sorted(lines) == sorted(
            [
                *(f"{jobs.running} job.{kind}" for kind in ("submitted", "running", "cancelled")),
                *(f"{jobs.waiting} job.{kind}" for kind in ("submitted", "cancelled")),
            ]
        )

    await until(ended, seconds=90, every=0.1, what="the end of an unreadable job")
    await until(events_published, seconds=90, every=0.1, what="the events of unreadable jobs")


@pytest.mark.usefixtures("bad")
async def test_a_cluster_is_degraded_until_all_its_records_can_be_read(
    spoiled: ProxyWorld, answers: BadAnswers
) -> None:
    async def told() -> bool:
        return "unreadable_records" in await degraded(spoiled)

    async def recovered() -> bool:
        return not await told()

    await until(told, seconds=90, every=0.1, what="the cluster to be degraded")

    answers.spoil = lambda record: None

    await until(recovered, seconds=60, every=0.2, what="the cluster to recover")
    answers.spoil = spoil_jobs
