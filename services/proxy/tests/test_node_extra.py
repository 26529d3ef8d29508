"""Nodes that are closed to some jobs: what Slurm does with these, and what the proxy tells of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_contracts.identity import JobId, SlurmUser
from clusterra_contracts.node_extra import OPEN, closed, job_class
from clusterra_contracts.queue import PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm import DeleteNode, SetExtra
from proxy_world import ProxyWorld
from slurm_world import SlurmWorld

LONG = "#!/bin/sh\nsleep 100\n"


@asynccontextmanager
async def placeholder_of(slurm: SlurmWorld, feature: str) -> AsyncIterator[None]:
    """A record that stands for more workers of a kind, as placeholders do for those of the catalogue's shapes.

    Slurm would hold a job that it lets only wait otherwise.
    """
    name = f"{feature}-to-come"
    await slurm.cluster.admit(name, cpus=4, memory_mib=8000, features=(feature,))
    yield
    await slurm.delete_node_record(name)


def find_pending(snapshot: QueueSnapshot, job_id: JobId) -> PendingJobs | None:
    return next((group for group in snapshot.pending or () if job_id in group.job_ids), None)


def find_running(snapshot: QueueSnapshot, job_id: JobId) -> RunningJob | None:
    return next((job for job in snapshot.running or () if job.job_id == job_id), None)


async def wait_until_rejected_by_node(proxy: ProxyWorld, job_id: JobId) -> PendingJobs:
    def refused(snapshot: QueueSnapshot) -> bool:
        group = find_pending(snapshot, job_id)
        # The first is the scheduler's word, the others are its backfill thread's.
        return group is not None and group.reason in ("Constraints", "Resources", "ReqNodeNotAvail")

    group = find_pending(await proxy.until_snapshot(refused), job_id)
    assert group is not None
    assert not group.held
    return group


async def wait_until_running(proxy: ProxyWorld, job_id: JobId) -> RunningJob:
    job = find_running(await proxy.until_snapshot(lambda snapshot: find_running(snapshot, job_id) is not None), job_id)
    assert job is not None
    return job


async def test_a_closed_node_takes_only_the_classes_that_are_let_in(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    async def set_extra(extra: str) -> None:
        await proxy.call("set-extra", SetExtra(node="picky", extra=extra), Done)

    async def submit(user: SlurmUser, *options: str) -> JobId:
        return await slurm.cluster.sbatch(user, LONG, "--constraint=picky", *options)

    async with placeholder_of(slurm, "picky"), slurm.worker("picky", features="picky"):
        await set_extra(closed())
        alices, bobs = await submit(alice, "--time=60"), await submit(bob, "--time=60")
        asked = await wait_until_rejected_by_node(proxy, alices)
        assert asked.job_ids == (alices,)
        assert asked.extra == f"open=1|{job_class(asked.extra)}=1"
        class_of_bob = job_class((await wait_until_rejected_by_node(proxy, bobs)).extra)
        assert class_of_bob is not None
        assert f"u{bob.uid}." in class_of_bob

        # It waits no longer because an older job, of the same priority, goes on waiting.
        await set_extra(closed([class_of_bob, "u1.c1.n1"]))
        job = await wait_until_running(proxy, bobs)
        assert (job.nodes, job.memory_mib, job_class(job.extra)) == (("picky",), 1024, class_of_bob)
        await wait_until_rejected_by_node(proxy, alices)

        await set_extra(OPEN)
        assert (await wait_until_running(proxy, alices)).nodes == ("picky",)
        # It stays where it is, whatever the node takes from now on.
        await set_extra(closed())
        newest = proxy.snapshots[-1]
        (node,) = [node for node in newest.nodes or () if node.name == "picky"]
        assert node.extra == closed()
        assert find_running(newest, alices)

        await slurm.cluster.run("scancel", alices, bobs)
        await proxy.until_snapshot(
            lambda snapshot: any(node.name == "picky" and node.idle for node in snapshot.nodes or ())
        )
    await proxy.call("delete-node", DeleteNode(node="picky"), Done)


async def test_extra_of_a_node(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
    async def shown() -> str:
        return (await slurm.cluster.run("scontrol", "show", "node", "w2")).stdout

    classes = [f"u{uid}.t12.c4.m8.n1" for uid in range(20000, 21000)]
    for extra in (closed(classes), closed(classes), OPEN):
        await proxy.call("set-extra", SetExtra(node="w2", extra=extra), Done)
        assert f"Extra={extra}\n" in await shown()
    error = await proxy.error_of("set-extra", SetExtra(node="w2", extra="open"))
    assert (error.kind, "JSON" in error.hint) == ("rejected", True)
    assert f"Extra={OPEN}\n" in await shown()
