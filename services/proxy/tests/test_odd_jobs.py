"""Odd jobs of plain sbatch and odd nodes, every field at its extremes: the cluster stays readable."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.slurm import Job
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.config import ClusterOptions
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_proxy.slurmrestd.reading.fields import LATEST
from proxy_world import ProxyWorld, find_node, find_pending, find_running, proxy_world
from slurm_world import SlurmWorld, slurm_world

SLEEP = "#!/bin/sh\nsleep 300\n"
TASKS = 100_000

# Python passes a lone surrogate from U+DC80 to U+DCFF on as the byte that it stands for.
WAITING: dict[str, tuple[str, ...]] = {
    "begin in the year 11476": ("--begin=uts300000000000",),
    "begin in the year 41,156,897": ("--begin=now+2147483647weeks",),
    "begin in the last year of Python's calendar": ("--begin=9999-12-31",),
    "begin at 32 bits": ("--begin=uts4294967295",),
    "deadline in the year 11476": ("--hold", "--deadline=uts300000000000"),
    "time limit that Slurm wraps around": ("--hold", "--time=2000000-0"),
    "no time limit": ("--hold", "--time=UNLIMITED"),
    "warning signal at the largest time": ("--hold", "--signal=B:64@65535"),
    "range of nodes": ("--hold", "--nodes=1-100000"),
    "whole memory": ("--hold", "--mem=0"),
    "lowest priority": ("--nice=2147483645", "--hold"),
    "delayed boot": ("--hold", "--delay-boot=4294967293"),
    "name of 1,024 bytes": ("--hold", f"--job-name={'x' * 1024}"),
    "name in every plane of Unicode": (
        "--hold",
        "--job-name=\u00e9\u4e2d\U0001f600\U00020000\U00030000\U000e0041\U000f0000\U0010ffff\ufffe\u202e",
    ),
    "name of control characters": ("--hold", "--job-name=a\tb\nc\x1b[31m\x7f\x01"),
    "name of invalid UTF-8": ("--hold", "--job-name=bad\udcff\udcfe\udcc3("),
    "name of lone surrogates": ("--hold", "--job-name=\udced\udca0\udc80\udced\udcbf\udcbf"),
    "name of an overlong slash": ("--hold", "--job-name=\udcc0\udcaf"),
    "comment that is not ours": ("--hold", "--comment=not ours; clusterra"),
    "comment of another owner": ("--hold", f"--comment=clusterra:user=root;uid={'9' * 900};key=%ff%fe;trace=00-zz"),
    "comment of an Arabic uid": ("--hold", "--comment=clusterra:uid=\u0663;user=\u00b2"),
    "comment of 1,024 bytes": ("--hold", f"--comment=clusterra:key={'k' * 1010}"),
    "comment of invalid UTF-8": ("--hold", "--comment=clusterra:user=a;key=\udcff\udced\udca0\udc80"),
    "extra of 1,024 bytes": ("--hold", f"--extra={'e' * 1022}=1"),
    "account and WCKey of invalid UTF-8": ("--hold", "--account=\udcff\udcfe", "--wckey=\udcff\udcfe"),
    "paths of invalid UTF-8": ("--hold", "--chdir=/mnt/\udcff", "--output=/mnt/\udcff\udcfe.out"),
    "output pattern of a great width": ("--hold", "--output=/mnt/%1000000000j"),
    "long environment": ("--hold", f"--export=A={'z' * 100_000}"),
    "long dependency": ("--hold", f"--dependency=afterany:{':'.join(['1'] * 2000)}"),
    "licence": ("--hold", "--licenses=matlab:2"),
    "alternating constraint": ("--hold", "--constraint=[general*2147483647]"),
    "large array": ("--hold", "--array=0-9999%2147483647"),
    "sparse array": ("--hold", "--array=0-4000:2%7"),
}
"""Options that sbatch and slurmctld accept. These jobs wait."""
RUNNING: dict[str, tuple[str, ...]] = {
    "deadline in the year 11476": ("--deadline=uts300000000000",),
    "time limit that Slurm wraps around": ("--time=2000000-0",),
    "name of invalid UTF-8": ("--job-name=bad\udcff\udcfe\udcc3(", "--comment=clusterra:uid=\udcff"),
}
"""Options of jobs that run."""
REFUSED: dict[str, tuple[str, ...]] = {
    "begin of 64 bits": ("--begin=uts9223372036854775807",),
    "begin before the epoch": ("--begin=uts-5",),
    "time limit of 32 bits": ("--time=4294967293",),
    "nodes of 32 bits": ("--nodes=4294967290",),
    "tasks of 31 bits": ("--ntasks=2147483647",),
    "CPUs of 16 bits": ("--cpus-per-task=65535",),
    "memory of 63 bits": (f"--mem={2**63 - 1}",),
    "memory per CPU of 62 bits": (f"--mem-per-cpu={2**52}M",),
    "GPUs of 32 bits": ("--gpus=4294967290",),
    "name of 1,025 bytes": (f"--job-name={'y' * 1025}",),
    "comment of 1,025 bytes": (f"--comment={'c' * 1025}",),
    "extra of 60,000 bytes": (f"--extra={'e' * 60_000}=1",),
    "licences of 31 bits": ("--licenses=matlab:2147483647",),
    "node that does not exist": ("--nodelist=w[0-99999]",),
}
"""Options that Slurm itself refuses here. Should a later Slurm accept them, they belong above."""

ODD_UPDATES: tuple[tuple[str, ...], ...] = (
    (f"comment={'c' * 1020}\udcff",),
    ('extra={"a":"\udcff"}',),
    ("state=DRAIN", "reason=bad\udcff\udced\udca0\udc80 \U0010ffff"),
    ("weight=4294967293",),
    ("gres=gpu:9223372036854775807",),
    ("instanceid=\udcff",),
)
"""What an operator can write into a node's record."""


@pytest.fixture(scope="module")
async def odd_slurm(slurm: SlurmWorld, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SlurmWorld]:
    """A Slurm that allows arrays of any size; `slurm` skips the tests where none can run."""
    del slurm
    options = ClusterOptions(settings=("MaxArraySize=1000001", "MaxJobCount=500000", "Licenses=matlab:2"))
    async with slurm_world(tmp_path_factory.mktemp("odd"), options) as world:
        yield world


@pytest.fixture(scope="module")
async def odd_proxy(odd_slurm: SlurmWorld, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProxyWorld]:
    async with (
        odd_slurm.worker("w1", cpus=8, memory_mib=16000),
        proxy_world(odd_slurm, tmp_path_factory.mktemp("odd-proxy"), "odd") as world,
    ):
        yield world


async def sbatch(slurm: SlurmWorld, user: SlurmUser, options: tuple[str, ...]) -> str:
    return await slurm.cluster.sbatch(user, SLEEP, "--output=/dev/null", *options)


async def run_another_job(proxy: ProxyWorld, user: SlurmUser) -> None:
    """Run a job from its submit to its end, and wait for all its events."""
    job_id = (await proxy.submit(user)).job_id
    ended = await proxy.wait_for_end(user, job_id)
    assert ended.state == "COMPLETED"
    await wait_for_events(proxy, job_id, "submitted", "running", "completed")


async def wait_for_events(proxy: ProxyWorld, job_id: str, *kinds: str) -> None:
    expected = [f"{job_id} job.{kind}" for kind in kinds]

    async def published() -> bool:
        return await proxy.event_lines(job_id) == expected

    await until(published, seconds=90, every=0.1, what=f"the events of job {job_id}")


async def test_odd_jobs_are_read_and_cancelled_and_others_run(odd_proxy: ProxyWorld, odd_slurm: SlurmWorld) -> None:
    proxy, user, other = odd_proxy, odd_slurm.new_user(), odd_slurm.new_user()
    began = now()
    waiting = {name: await sbatch(odd_slurm, user, options) for name, options in WAITING.items()}
    running = {name: await sbatch(odd_slurm, user, options) for name, options in RUNNING.items()}

    snapshot = await proxy.until_snapshot(
        lambda each: (
            all(find_pending(each, job_id) for job_id in waiting.values())
            and all(find_running(each, job_id) for job_id in running.values())
        )
    )

    assert (snapshot.unreadable_jobs, snapshot.unreadable_nodes) == (0, 0)
    for name in ("begin in the year 11476", "begin in the year 41,156,897"):
        group = find_pending(snapshot, waiting[name])
        assert group is not None
        assert (group.begins_at, group.reason) == (LATEST, "BeginTime")
    large = find_pending(snapshot, waiting["large array"])
    assert large is not None
    # Equal jobs are one group, so it counts others too.
    assert large.count >= 10_000
    assert large.array_tasks[waiting["large array"]] == ((0, 9_999),)

    await run_another_job(proxy, other)

    page = await proxy.jobs(user, limit=1000)
    assert {job.job_id for job in page.jobs} == {*waiting.values(), *running.values()}
    for name, job_id in (waiting | {f"running {name}": job_id for name, job_id in running.items()}).items():
        assert await proxy.job(user, job_id), name
        await proxy.cancel(user, job_id)

    async def cancelled() -> list[Job] | None:
        jobs = (await proxy.jobs(user, limit=1000)).jobs
        return [*jobs] if all(job.state == "CANCELLED" for job in jobs) else None

    jobs = await until(cancelled, seconds=60, every=0.2, what="the end of all jobs")

    assert len(jobs) == len(waiting) + len(running)
    for job_id in waiting.values():
        await wait_for_events(proxy, job_id, "submitted", "cancelled")
    for job_id in running.values():
        await wait_for_events(proxy, job_id, "submitted", "running", "cancelled")

    stored = await proxy.jobs(user, submitted_after=began - timedelta(minutes=1), limit=1000)
    assert {*waiting.values(), *running.values()} <= {job.job_id for job in stored.jobs}


@pytest.mark.parametrize("name", REFUSED)
async def test_slurm_itself_refuses_other_extremes(odd_proxy: ProxyWorld, odd_slurm: SlurmWorld, name: str) -> None:
    del odd_proxy
    with pytest.raises(CommandFailed):
        await sbatch(odd_slurm, odd_slurm.new_user(), REFUSED[name])


async def test_a_purged_odd_job_is_read_from_accounting(odd_proxy: ProxyWorld, odd_slurm: SlurmWorld) -> None:
    proxy, user = odd_proxy, odd_slurm.new_user()
    began = now() - timedelta(seconds=2)
    names = ("begin in the year 11476", "name of invalid UTF-8", "comment of another owner", "sparse array")
    ids = [await sbatch(odd_slurm, user, WAITING[name]) for name in names]
    await proxy.until_snapshot(lambda each: all(find_pending(each, job_id) for job_id in ids))
    await asyncio.gather(*(proxy.cancel(user, job_id) for job_id in ids))
    await odd_slurm.purge_finished_jobs(*ids)

    listed = await proxy.jobs(user, submitted_after=began, limit=1000)

    assert {job.job_id.partition("_")[0] for job in listed.jobs} == set(ids)
    for job_id in ids:
        assert (await proxy.job(user, job_id)).state == "CANCELLED"


async def test_odd_nodes_are_read_and_one_that_cannot_be_counts_as_busy(
    odd_proxy: ProxyWorld, odd_slurm: SlurmWorld
) -> None:
    proxy, other = odd_proxy, odd_slurm.new_user()
    # Slurm stores this memory, and slurmrestd then reports -1 MiB.
    async with odd_slurm.worker("odd", memory_mib=2**64 - 1, features="f" * 1024):
        for update in ODD_UPDATES:
            done = await odd_slurm.cluster.run("scontrol", "update", "nodename=odd", *update)
            assert done.returncode == 0, (update, done.stderr)
        snapshot = await proxy.until_snapshot(
            lambda each: (node := find_node(each, "odd")) is not None and "DRAIN" in node.states
        )
        node = find_node(snapshot, "odd")

        assert node is not None
        assert snapshot.unreadable_nodes == 1
        assert (node.idle, node.cpus_allocated, node.idle_since) == (False, 4, None)
        assert "UNREADABLE" in node.states
        assert node.reason == "bad\ufffd\ufffd\ufffd\ufffd \U0010ffff"
        await run_another_job(proxy, other)
    await odd_slurm.delete_node_record("odd")
    await proxy.until_snapshot(lambda each: each.unreadable_nodes == 0)


async def test_an_array_of_100_000_tasks_hurts_nobody_else(odd_proxy: ProxyWorld, odd_slurm: SlurmWorld) -> None:
    proxy, user, other = odd_proxy, odd_slurm.new_user(), odd_slurm.new_user()
    array = await sbatch(odd_slurm, user, ("--hold", f"--array=0-{TASKS - 1}"))

    snapshot = await proxy.until_snapshot(lambda each: find_pending(each, array) is not None, seconds=60)
    group = find_pending(snapshot, array)

    assert group is not None
    assert (group.count, group.array_tasks) == (TASKS, {array: ((0, TASKS - 1),)})

    await run_another_job(proxy, other)
    assert (await proxy.job(user, f"{array}_{TASKS - 1}")).state == "PENDING"

    await proxy.cancel(user, f"{array}_5")
    await wait_for_events(proxy, f"{array}_5", "cancelled")
    # Slurm truncates a list of so many ranges. Nobody takes the tasks that it leaves out for cancelled.
    done = await odd_slurm.cluster.run("scancel", f"{array}_[{','.join(map(str, range(1001, 1100, 2)))}]")
    assert done.returncode == 0, done.stderr
    await run_another_job(proxy, other)
    tasks = [event.subject for event in await proxy.events("job.cancelled") if event.subject.startswith(f"{array}_")]
    assert tasks == [f"{array}_5"]

    await proxy.cancel(user, array)
    await wait_for_events(proxy, array, "submitted", "cancelled")
    await run_another_job(proxy, other)
