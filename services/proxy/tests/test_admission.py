"""Admission on a real Slurm: a job that some shape could run is accepted and keeps its priority."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from clusterra_contracts.shapes import WorkerSpec
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_proxy.admission.keeper import PlaceholderKeeper
from clusterra_proxy.admission.placeholders import PREFIX, PlaceholderGroup
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.future_nodes import FutureNodeRecords
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld
from slurm_world import SlurmWorld, placeholder_names, slurm_world

SMALL = PlaceholderGroup("general-small", WorkerSpec(cpus=4, memory_mib=8000, features=("general", "general-small")), 4)
LARGE = PlaceholderGroup(
    "general-large", WorkerSpec(cpus=16, memory_mib=64000, features=("general", "general-large")), 3
)
GPU = PlaceholderGroup("gpu-large", WorkerSpec(cpus=16, memory_mib=64000, features=("gpu",), gres="gpu:h100:4"), 3)
SHAPES = (SMALL, LARGE, GPU)

NEEDS_A_SHAPE: Sequence[tuple[str, ...]] = (
    ("--cpus-per-task=16",),
    ("--mem=64000",),
    ("--constraint=general-large",),
    ("--nodes=3", "--constraint=general-large"),
    ("--nodes=3", "--ntasks-per-node=16"),
    ("--gres=gpu:1",),
    ("--gres=gpu:h100:4",),
    ("--nodes=3", "--gres=gpu:h100:1"),
)
"""Each fits some shape, but neither a cluster without records nor one with only a small worker."""
FITS_NO_SHAPE: Sequence[tuple[str, ...]] = (
    ("--cpus-per-task=17",),
    ("--mem=64001",),
    ("--constraint=general-small", "--cpus-per-task=5"),
    ("--nodes=4", "--constraint=general-large"),
    ("--nodes=11",),
    ("--ntasks=1000",),
    ("--gres=gpu:5",),
    ("--gres=gpu:a100:1",),
    ("--constraint=nowhere",),
)


@pytest.fixture(scope="module")
async def bare(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SlurmWorld]:
    async with slurm_world(tmp_path_factory.mktemp("bare")) as world:
        yield world


@asynccontextmanager
async def kept_placeholders(slurm: SlurmWorld, *shapes: PlaceholderGroup) -> AsyncIterator[PlaceholderKeeper]:
    """Keep placeholders within the block. The records remain after it."""
    async with Slurmrestd(slurm.cluster.slurmrestd_url) as slurmrestd:
        records = FutureNodeRecords(slurmrestd, Slurmctld(slurmrestd).version)

        def token() -> str:
            return slurm.token(slurm.operator)

        keeper = PlaceholderKeeper(records, shapes, token)
        keeping = asyncio.create_task(keeper.keep())
        try:
            assert await keeper.wait_until_intact(20)
            yield keeper
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def wait_for_placeholders(slurm: SlurmWorld, count: int) -> list[str]:
    """Wait for this number of placeholders, and return their names."""

    async def found() -> tuple[list[str]] | None:
        names = await placeholder_names(slurm)
        return (names,) if len(names) == count else None

    (names,) = await until(found, seconds=90, what=f"{count} placeholders", every=0.1)
    return names


async def priorities(slurm: SlurmWorld, *job_ids: str) -> dict[str, int]:
    shown = await slurm.cluster.run("squeue", "--noheader", "--format=%i %Q", f"--jobs={','.join(job_ids)}")
    return {job_id: int(priority) for job_id, priority in (line.split() for line in shown.stdout.splitlines())}


async def scancel(slurm: SlurmWorld, *job_ids: str) -> None:
    done = await slurm.cluster.run("scancel", *job_ids)
    assert done.returncode == 0, done


async def sbatch_rejected(slurm: SlurmWorld, *options: str) -> str:
    with pytest.raises(CommandFailed) as failed:
        await slurm.cluster.sbatch(slurm.new_user(), "#!/bin/sh\ntrue\n", *options)
    return str(failed.value)


async def sbatch_accepted(slurm: SlurmWorld, *options: str) -> str:
    return await slurm.cluster.sbatch(slurm.new_user(), "#!/bin/sh\ntrue\n", *options)


async def wait_for_scheduler(slurm: SlurmWorld) -> None:
    """Wait until both schedulers have considered the whole queue twice."""

    async def cycles() -> int:
        shown = (await slurm.cluster.run("sdiag")).stdout
        return sum(int(line.split(":")[1]) for line in shown.splitlines() if line.strip().startswith("Total cycles:"))

    before = await cycles()

    async def cycled() -> bool:
        return await cycles() >= before + 4

    await until(cycled, seconds=90, what="the scheduler's cycles", every=0.1)


async def test_without_placeholders_slurm_rejects_new_jobs_and_holds_waiting_ones(bare: SlurmWorld) -> None:
    """The problem that placeholders solve."""
    await sbatch_rejected(bare, "--constraint=general-large")
    async with kept_placeholders(bare, *SHAPES):
        waiting = await sbatch_accepted(bare, "--mem=64000")
        before = await priorities(bare, waiting)
        assert before[waiting] > 0
    async with bare.worker("plain-a", features="general,general-small"), kept_placeholders(bare):
        await wait_for_placeholders(bare, 0)
        for options in NEEDS_A_SHAPE:
            await sbatch_rejected(bare, *options)

        async def held() -> bool:
            return (await priorities(bare, waiting))[waiting] == 0

        await until(held, seconds=90, what="the job to be held", every=0.2)
        await scancel(bare, waiting)
    await bare.delete_node_record("plain-a")


async def test_jobs_that_fit_a_shape_are_accepted_without_workers(bare: SlurmWorld) -> None:
    async with kept_placeholders(bare, *SHAPES):
        jobs = {" ".join(options): await sbatch_accepted(bare, *options) for options in NEEDS_A_SHAPE}
        await wait_for_scheduler(bare)

        found = await priorities(bare, *jobs.values())

        assert {options for options, job_id in jobs.items() if not found[job_id]} == set()
        await scancel(bare, *jobs.values())


async def test_waiting_jobs_keep_their_priority_when_a_worker_of_another_shape_registers(bare: SlurmWorld) -> None:
    async with kept_placeholders(bare, *SHAPES):
        waiting = [await sbatch_accepted(bare, *options) for options in NEEDS_A_SHAPE]
        before = await priorities(bare, *waiting)
        async with bare.worker("plain-b", features="general,general-small"):
            more = [await sbatch_accepted(bare, *options) for options in NEEDS_A_SHAPE]
            await wait_for_scheduler(bare)
            assert await priorities(bare, *waiting) == before
            assert all((await priorities(bare, *more)).values())
        await scancel(bare, *waiting, *more)
        await bare.delete_node_record("plain-b")


async def test_sbatch_rejects_a_job_that_fits_no_shape(bare: SlurmWorld) -> None:
    async with kept_placeholders(bare, *SHAPES):
        for options in FITS_NO_SHAPE:
            await sbatch_rejected(bare, *options)


async def test_reconfigure_and_kill_leave_waiting_jobs_unchanged(bare: SlurmWorld) -> None:
    typed = ("--gres=gpu:h100:2",)
    async with kept_placeholders(bare, *SHAPES) as keeper, bare.worker("plain-c", features="general,general-small"):
        waiting = [await sbatch_accepted(bare, *options) for options in NEEDS_A_SHAPE]
        before = await priorities(bare, *waiting)
        for disturb in (bare.reconfigure, bare.kill_slurmctld, bare.reconfigure):
            await disturb()
            assert await keeper.wait_until_intact(20)
            more = await sbatch_accepted(bare, *typed)
            await wait_for_scheduler(bare)
            assert await priorities(bare, *waiting) == before
            await scancel(bare, more)
        await scancel(bare, *waiting)
    await bare.delete_node_record("plain-c")


async def test_lost_placeholders_are_recreated_and_obsolete_ones_deleted(bare: SlurmWorld) -> None:
    async with kept_placeholders(bare, *SHAPES):
        names = await wait_for_placeholders(bare, 10)
        done = await bare.cluster.run("scontrol", "delete", f"nodename={','.join(names)}")

        assert done.returncode == 0, done
        assert await wait_for_placeholders(bare, 10) == names

        foreign = f"{PREFIX}gone-000000-[1-2]"
        await bare.cluster.run("scontrol", "create", f"nodename={foreign}", "cpus=1", "state=FUTURE")
        await wait_for_placeholders(bare, 12)
    async with kept_placeholders(bare, *SHAPES):
        assert await wait_for_placeholders(bare, 10) == names


async def test_a_changed_catalogue_keeps_waiting_jobs_eligible(bare: SlurmWorld) -> None:
    async with kept_placeholders(bare, *SHAPES):
        waiting = await sbatch_accepted(bare, "--constraint=general-large")
        before = await priorities(bare, waiting)
    bigger = PlaceholderGroup("general-large", LARGE.worker.model_copy(update={"cpus": 32}), 3)
    async with bare.worker("plain-d", features="general,general-small"), kept_placeholders(bare, SMALL, bigger):
        await wait_for_placeholders(bare, 7)
        more = await sbatch_accepted(bare, "--cpus-per-task=32")
        await wait_for_scheduler(bare)
        assert await priorities(bare, waiting) == before
        assert "not available" in await sbatch_rejected(bare, "--gres=gpu:1")
        await scancel(bare, waiting, more)
    await bare.delete_node_record("plain-d")
