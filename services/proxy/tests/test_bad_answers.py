"""Unreadable records in a real slurmrestd's answers: each is shown, can be cancelled, and hurts nothing else."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from bad_answers import BadAnswers
from clusterra_contracts.bus.topology import CONDITIONS
from clusterra_contracts.condition import ClusterCondition
from clusterra_contracts.identity import SlurmUser
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


async def test_unreadable_jobs_are_shown_and_cancelled_and_others_run(
    spoiled: ProxyWorld, answers: BadAnswers, alice: SlurmUser, bob: SlurmUser
) -> None:
    proxy = spoiled

    def spoil(record: dict[str, Any]) -> None:
        if record.get("name") in ("bad-waiting", "bad-running"):
            record["cpus"] = {"set": True, "infinite": False, "number": "a secret"}
        elif record.get("name") == "bad-state":
            record["job_state"] = ["a secret", 7]
        elif record.get("name") == "bad-id":
            record["job_id"] = "a secret"

    answers.spoil = spoil
    waiting = (await proxy.submit(alice, name="bad-waiting", hold=True)).job_id
    stateless = (await proxy.submit(alice, name="bad-state", hold=True)).job_id
    running = (await proxy.submit(alice, SLEEP, name="bad-running")).job_id
    unnamed = (await proxy.submit(alice, name="bad-id", hold=True)).job_id
    snapshot = await proxy.until_snapshot(
        lambda each: (
            each.unreadable_jobs >= 4 and runs_on_a_busy_node(each, running) and find_pending(each, unnamed) is not None
        )
    )
    for job_id, reason in ((waiting, "Unreadable: cpus"), (stateless, "Unreadable: job_state")):
        group = find_pending(snapshot, job_id)
        assert group is not None
        assert (group.count, group.uid, group.reason) == (0, alice.uid, reason)
        assert (await proxy.job(alice, job_id)).reason == reason

    job = find_running(snapshot, running)
    assert job is not None

    other = (await proxy.submit(bob)).job_id
    assert (await proxy.wait_for_end(bob, other)).state == "COMPLETED"
    listed = {job.job_id: job.state for job in (await proxy.jobs(alice)).jobs}
    assert listed == {waiting: "PENDING", stateless: "UNKNOWN", running: "RUNNING"}
    everybody = {job.job_id: job for job in (await proxy.jobs(bob, admin=True)).jobs}
    assert (everybody[unnamed].state, everybody[unnamed].reason) == ("UNKNOWN", "Unreadable: job_id")

    async def told() -> bool:
        return "unreadable_records" in await degraded(proxy)

    await until(told, seconds=90, every=0.1, what="the cluster to be degraded")
    for job_id in (waiting, stateless, running):
        await proxy.cancel(alice, job_id)
    await proxy.cancel(bob, unnamed, admin=True)

    async def ended() -> bool:
        return (await proxy.job(alice, waiting)).state == "CANCELLED"

    await until(ended, seconds=90, every=0.1, what="the end of an unreadable job")

    async def events_published() -> bool:
        lines = await proxy.event_lines(running, waiting)
        return sorted(lines) == sorted(
            [
                *(f"{running} job.{kind}" for kind in ("submitted", "running", "cancelled")),
                *(f"{waiting} job.{kind}" for kind in ("submitted", "cancelled")),
            ]
        )

    await until(events_published, seconds=90, every=0.1, what="the events of unreadable jobs")
    text = proxy.log.read_text()
    assert "record_unreadable" in text
    assert "a secret" not in text

    answers.spoil = lambda record: None

    async def recovered() -> bool:
        return "unreadable_records" not in await degraded(proxy)

    await until(recovered, seconds=60, every=0.2, what="the cluster to recover")


async def test_an_unreadable_node_counts_as_busy(
    spoiled: ProxyWorld, answers: BadAnswers, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    proxy = spoiled
    await proxy.until_snapshot(lambda each: (node := find_node(each, "w2")) is not None and node.idle)

    def spoil(record: dict[str, Any]) -> None:
        if record.get("name") == "w2":
            record["alloc_cpus"] = "a secret"

    answers.spoil = spoil
    # Slurm lists its nodes only when one has changed.
    done = await slurm.cluster.run("scontrol", "update", "nodename=w1", "comment=changed")
    assert done.returncode == 0

    snapshot = await proxy.until_snapshot(lambda each: each.unreadable_nodes == 1)
    bad, good = find_node(snapshot, "w2"), find_node(snapshot, "w1")

    assert bad is not None
    assert good is not None
    assert (bad.idle, bad.cpus_allocated, bad.memory_allocated_mib) == (False, bad.cpus, bad.memory_mib)
    assert "UNREADABLE" in bad.states
    assert good.idle
    job_id = (await proxy.submit(alice)).job_id
    assert (await proxy.wait_for_end(alice, job_id)).state == "COMPLETED"

    answers.spoil = lambda record: None
    await slurm.cluster.run("scontrol", "update", "nodename=w1", "comment=changed again")
    await proxy.until_snapshot(lambda each: each.unreadable_nodes == 0)
