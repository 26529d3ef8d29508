"""Node extras: Slurm runs only admitted job classes on a closed node, and snapshots show it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_contracts.identity import JobId, SlurmUser
from clusterra_contracts.node_extra import OPEN, closed, job_class
from clusterra_contracts.queue import PendingJobs, QueueSnapshot, RunningJob
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm_nodes import DeleteNode, SetExtra
from proxy_world import ProxyWorld, find_node, find_pending, find_running
from slurm_world import SlurmWorld

LONG = "#!/bin/sh\nsleep 100\n"


@asynccontextmanager
async def placeholder_of(slurm: SlurmWorld, feature: str) -> AsyncIterator[None]:
    """A placeholder with this feature. Without one, Slurm would hold a waiting job."""
    name = f"{feature}-to-come"
    await slurm.cluster.admit(name, cpus=4, memory_mib=8000, features=(feature,))
    yield
    await slurm.delete_node_record(name)


NODE_REASONS = ("Constraints", "Resources", "ReqNodeNotAvail")


async def wait_until_rejected(proxy: ProxyWorld, job_id: JobId, reasons: tuple[str, ...] = NODE_REASONS) -> PendingJobs:
    def rejected(snapshot: QueueSnapshot) -> bool:
        group = find_pending(snapshot, job_id)
        return group is not None and group.reason in reasons

    group = find_pending(await proxy.until_snapshot(rejected), job_id)
    assert group is not None
    assert not group.held
    return group


async def wait_until_running(proxy: ProxyWorld, job_id: JobId) -> RunningJob:
    job = find_running(await proxy.until_snapshot(lambda snapshot: find_running(snapshot, job_id) is not None), job_id)
    assert job is not None
    return job


async def test_a_closed_node_runs_only_the_admitted_classes(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    async def set_extra(extra: str) -> None:
        await proxy.call("set-extra", SetExtra(node="picky", extra=extra), Done)

    async def submit(user: SlurmUser, *options: str) -> JobId:
        return await slurm.cluster.sbatch(user, LONG, "--constraint=picky", *options)

    async with placeholder_of(slurm, "picky"), slurm.worker("picky", features="picky"):
        await set_extra(closed())
        alices, bobs = await submit(alice, "--time=60"), await submit(bob, "--time=60")
        waiting = await wait_until_rejected(proxy, alices)

        assert waiting.job_ids == (alices,)
        assert waiting.extra == f"open=1|{job_class(waiting.extra)}=1"

        # The main scheduler stops at the first job and writes `Priority` over what backfill has found for the others.
        behind = await wait_until_rejected(proxy, bobs, (*NODE_REASONS, "Priority"))
        bobs_class = job_class(behind.extra)
        assert bobs_class is not None
        assert f"u{bob.uid}." in bobs_class

        # It runs although an older job of the same priority keeps waiting.
        await set_extra(closed([bobs_class, "u1.c1.n1"]))
        job = await wait_until_running(proxy, bobs)

        assert (job.nodes, job.memory_mib, job_class(job.extra)) == (("picky",), 1024, bobs_class)

        await wait_until_rejected(proxy, alices)

        await set_extra(OPEN)
        assert (await wait_until_running(proxy, alices)).nodes == ("picky",)

        # A running job stays, whatever the node admits from now on.
        await set_extra(closed())

        def is_closed(snapshot: QueueSnapshot) -> bool:
            node = find_node(snapshot, "picky")
            return node is not None and node.extra == closed()

        assert find_running(await proxy.until_snapshot(is_closed), alices)

        await slurm.cluster.run("scancel", alices, bobs)
        await proxy.until_snapshot(
            lambda snapshot: any(node.name == "picky" and node.idle for node in snapshot.nodes or ())
        )
    await proxy.call("delete-node", DeleteNode(node="picky"), Done)


async def test_a_nodes_extra_is_set_and_must_be_json(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
    async def shown_node() -> str:
        return (await slurm.cluster.run("scontrol", "show", "node", "w2")).stdout

    classes = [f"u{uid}.t12.c4.m8.n1" for uid in range(20000, 21000)]
    for extra in (closed(classes), closed(classes), OPEN):
        await proxy.call("set-extra", SetExtra(node="w2", extra=extra), Done)
        assert f"Extra={extra}\n" in await shown_node()
    error = await proxy.error_of("set-extra", SetExtra(node="w2", extra="open"))

    assert (error.kind, "JSON" in error.hint) == ("rejected", True)
    assert f"Extra={OPEN}\n" in await shown_node()
