"""What is told of a job's end: by slurmctld's record, by slurmdbd's, and on a real Slurm."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.job_states import DIRECTORY_NOT_ENTERED, FILES_NOT_OPENED, OUT_OF_MEMORY, SUSPENDED
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.rpc.slurm import Job
from clusterra_lab.machine.process import until
from clusterra_proxy.slurmrestd.records import ExitCode, JobRecord, Signal
from job_records import job
from proxy_world import ProxyWorld, find_running
from slurm_world import SlurmWorld

LONG = "#!/bin/sh\nsleep 600\n"
USES_MEMORY = """\
#!/bin/bash
text=$(head -c 60000000 /dev/zero | tr '\\0' x)
sleep 3
"""
"""slurmstepd measures memory every second."""
CODE = "#!/bin/sh\nexit $((3 - 3 * SLURM_ARRAY_TASK_ID))\n"
"""Exits with 3 as the task 0, and with 0 as the task 1."""


def ended(state: str, reason: str, code: int | None = None, signal: int | None = None) -> JobRecord:
    exit_code = ExitCode(return_code=code, signal=Signal(id=signal))
    return job(7, state, nodes="w1", start=1, end=2, state_reason=reason, exit_code=exit_code)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        # slurmctld, and then slurmdbd, which has why the job waited last.
        (ended("FAILED", "NonZeroExitCode", 3), (3, None, "NonZeroExitCode")),
        (ended("FAILED", "JobArrayTaskLimit", 3), (3, None, "NonZeroExitCode")),
        (ended("FAILED", "RaisedSignal:9(Killed)", None, 9), (None, 9, "RaisedSignal:9(Killed)")),
        (ended("FAILED", "Priority", 0, 9), (None, 9, "RaisedSignal")),
        (ended("FAILED", "RaisedSignal", None, 53), (None, None, FILES_NOT_OPENED)),
        (ended("FAILED", "None", 0, 53), (None, None, FILES_NOT_OPENED)),
        (ended("FAILED", "RaisedSignal", None, 54), (None, None, DIRECTORY_NOT_ENTERED)),
        (ended("NODE_FAIL", "NodeDown", None, 1), (None, None, "NodeDown")),
        (ended("NODE_FAIL", "Resources", 1), (None, None, "NodeDown")),
        (ended("OUT_OF_MEMORY", "OutOfMemory", None, 125), (None, None, OUT_OF_MEMORY)),
        (ended("OUT_OF_MEMORY", "None", 0, 125), (None, None, OUT_OF_MEMORY)),
        (ended("TIMEOUT", "Resources", 0), (None, None, "TimeLimit")),
        (ended("COMPLETED", "Priority", 0), (0, None, "")),
        (ended("CANCELLED", "JobHeldUser", 0), (None, None, "")),
        (ended("CANCELLED", "DependencyNeverSatisfied", 0), (None, None, "DependencyNeverSatisfied")),
        (job(7, "SUSPENDED"), (None, None, SUSPENDED)),
        (job(7, state_reason="Priority"), (None, None, "Priority")),
    ],
)
def test_either_daemons_record_tells_how_the_job_ended(
    record: JobRecord, told: tuple[int | None, int | None, str]
) -> None:
    assert (record.return_code, record.signal, record.reason_to_show) == told


async def running(proxy: ProxyWorld, user: SlurmUser, job_id: str) -> Job:
    async def runs() -> Job | None:
        found = await proxy.job(user, job_id)
        return found if found.state == "RUNNING" else None

    return await until(runs, seconds=120, what=f"job {job_id} to run", every=0.1)


async def known_to_slurmdbd(proxy: ProxyWorld, job_id: str) -> None:
    async def known() -> bool:
        listed = await proxy.slurm.cluster.run(
            "sacct", "--noheader", "--parsable2", "--format=JobID", f"--jobs={job_id}"
        )
        return job_id in listed.stdout.split()

    await until(known, seconds=120, what=f"slurmdbd to know job {job_id}", every=0.5)


async def told(
    proxy: ProxyWorld, user: SlurmUser, job_id: str, value: Callable[[Job], object], seconds: float = 120
) -> Job:
    """The job as soon as it is told with a value."""

    async def found() -> Job | None:
        seen = await proxy.job(user, job_id)
        return seen if value(seen) else None

    return await until(found, seconds=seconds, what=f"all of job {job_id}", every=0.5)


async def cancelled(proxy: ProxyWorld, user: SlurmUser) -> tuple[Job, Job]:
    """A waiting and a running job that their user has cancelled, as soon as it is told by whom.

    slurmctld tells it only of jobs that slurmdbd has known for a while. Nothing shows for how long, so other jobs are
    tried.
    """
    for _ in range(4):
        waiting = (await proxy.submit(user, hold=True)).job_id
        busy = (await proxy.submit(user, LONG)).job_id
        await running(proxy, user, busy)
        for job_id in (waiting, busy):
            await known_to_slurmdbd(proxy, job_id)
        for job_id in (waiting, busy):
            await proxy.cancel(user, job_id)
        for job_id in (waiting, busy):
            await proxy.wait_for_end(user, job_id, seconds=120)
        with suppress(TimeoutError):
            first = await told(proxy, user, waiting, lambda each: each.cancelled_by, seconds=40)
            return first, await told(proxy, user, busy, lambda each: each.cancelled_by, seconds=40)
    raise AssertionError("of no job was told who cancelled it")


async def test_a_job_whose_files_or_folder_cannot_be_used_says_so(proxy: ProxyWorld, alice: SlurmUser) -> None:
    shared = proxy.slurm.shared_path
    closed = await proxy.submit(alice, standard_output=f"{shared}/home/of-nobody/x.out")
    missing = await proxy.submit(alice, current_working_directory=f"{shared}/not-there", standard_output=f"{shared}/%j")
    scratch = await proxy.submit(alice, current_working_directory="/tmp/", standard_output=f"{shared}/%j")

    ends = [await proxy.wait_for_end(alice, each.job_id, seconds=120) for each in (closed, missing, scratch)]

    assert [(each.state, each.reason, each.exit_code, each.signal) for each in ends] == [
        ("FAILED", FILES_NOT_OPENED, None, None),
        ("FAILED", DIRECTORY_NOT_ENTERED, None, None),
        ("COMPLETED", "", 0, None),
    ]


async def test_a_job_shows_its_memory_as_soon_as_it_has_ended(proxy: ProxyWorld, alice: SlurmUser) -> None:
    within = await proxy.submit(alice, USES_MEMORY, memory_per_node=500)
    beyond = await proxy.submit(alice, USES_MEMORY, memory_per_node=20)

    for each in (within, beyond):
        await proxy.wait_for_end(alice, each.job_id, seconds=120)
    # slurmdbd may be late.
    first, second = [
        await told(proxy, alice, each.job_id, lambda each: each.peak_memory_mib) for each in (within, beyond)
    ]

    assert (first.state, first.reason) == ("COMPLETED", "")
    assert first.peak_memory_mib is not None
    assert first.peak_memory_mib >= 50
    assert first.cpu_efficiency is not None
    assert (second.state, second.reason) == ("FAILED", OUT_OF_MEMORY)
    assert second.peak_memory_mib is not None
    assert second.peak_memory_mib > 20


async def test_a_cancelled_job_tells_who_cancelled_it(proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser) -> None:
    own = await cancelled(proxy, alice)
    by_an_admin = (await proxy.submit(alice, hold=True)).job_id
    await proxy.cancel(bob, by_an_admin, admin=True)
    ends = [*own, await proxy.wait_for_end(alice, by_an_admin, seconds=120)]

    # An administrator's cancel is one of the proxy's own user: the event of the action has the name.
    assert [(each.state, each.reason, each.cancelled_by) for each in ends] == [
        ("CANCELLED", "", alice.name),
        ("CANCELLED", "", alice.name),
        ("CANCELLED", "", None),
    ]


async def test_a_suspended_job_is_told_as_suspended(proxy: ProxyWorld, alice: SlurmUser) -> None:
    job_id = (await proxy.submit(alice, LONG)).job_id
    await running(proxy, alice, job_id)
    done = await proxy.slurm.cluster.run("scontrol", "suspend", job_id)
    assert done.returncode == 0, done

    def suspended_in(snapshot: QueueSnapshot) -> bool:
        found = find_running(snapshot, job_id)
        return found is not None and found.suspended

    await proxy.until_snapshot(suspended_in, seconds=120)
    told = await proxy.job(alice, job_id)
    await proxy.cancel(alice, job_id)

    assert (told.state, told.reason) == ("SUSPENDED", SUSPENDED)


async def test_a_job_whose_node_failed_has_no_signal(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    async with slurm.worker("w3", features="failing") as worker:
        submitted = await slurm.cluster.sbatch(alice, LONG, "--no-requeue", "--nodelist=w3", "--output=/dev/null")
        await running(proxy, alice, submitted)
        worker.kill()
        await slurm.cluster.run("scontrol", "update", "nodename=w3", "state=down", "reason=test")

        end = await proxy.wait_for_end(alice, submitted, seconds=120)
    await slurm.delete_node_record("w3")

    assert (end.state, end.reason, end.exit_code, end.signal) == ("NODE_FAIL", "NodeDown", None, None)


async def test_an_array_that_slurm_has_forgotten_tells_of_its_tasks(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    output = f"{slurm.shared_path}/%A_%a.out"
    array = (await proxy.submit(alice, CODE, array="0-3", hold=True, standard_output=output)).job_id
    await slurm.cluster.run("scontrol", "release", f"{array}_0")
    await proxy.wait_for_end(alice, f"{array}_0", seconds=120)
    await proxy.cancel(alice, array)
    at_once = [await proxy.wait_for_end(alice, each, seconds=120) for each in (array, f"{array}_2")]
    await forgotten(proxy, slurm, alice, array)

    later = [await proxy.job(alice, each) for each in (array, f"{array}_0", f"{array}_2")]

    assert [(each.state, each.array_tasks, each.reason) for each in (at_once[0], later[0])] == [
        ("FAILED", "", "NonZeroExitCode")
    ] * 2
    assert [at_once[0].unstarted_tasks, later[0].unstarted_tasks] == ["1-3"] * 2
    assert (later[1].state, later[1].exit_code, later[1].reason) == ("FAILED", 3, "NonZeroExitCode")
    assert later[1].standard_output == f"{slurm.shared_path}/{array}_0.out"
    for task in (at_once[1], later[2]):
        assert (task.job_id, task.state, task.reason, task.started_at) == (f"{array}_2", "CANCELLED", "", None)
        assert task.standard_output == ""


async def test_an_array_fails_with_a_task_that_slurm_has_forgotten(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    array = (await proxy.submit(alice, CODE, array="0-1", hold=True)).job_id
    await slurm.cluster.run("scontrol", "release", f"{array}_0")
    await proxy.wait_for_end(alice, f"{array}_0", seconds=120)
    async with slurm.slurmctld() as slurmctld:
        records = await slurmctld.job(slurm.token(slurm.operator), array)
    await slurm.purge_finished_jobs(*(f"{record.job_id}_0" for record in records if record.id == f"{array}_0"))

    await slurm.cluster.run("scontrol", "release", array)
    whole = await proxy.wait_for_end(alice, array, seconds=120)

    assert (whole.state, whole.exit_code) == ("FAILED", 3)


async def forgotten(proxy: ProxyWorld, slurm: SlurmWorld, user: SlurmUser, array: str) -> None:
    """Wait until slurmctld has purged an array, and until the proxy knows it."""
    async with slurm.slurmctld() as slurmctld:
        records = await slurmctld.job(slurm.token(slurm.operator), array)
    await slurm.purge_finished_jobs(*(f"{record.job_id}_{task}" for record in records for task in range(4)))

    async def removed() -> bool:
        return (await proxy.jobs(user)).total == 0

    await until(removed, seconds=120, what="the proxy to forget the array too", every=0.1)
