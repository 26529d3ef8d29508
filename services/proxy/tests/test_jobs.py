"""Jobs through the proxy: submit, read, list and cancel."""

import asyncio
from datetime import timedelta
from typing import Any

from clusterra_contracts.events import JobFact
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.slurm import (
    Cancel,
    CountJobs,
    GetJob,
    Job,
    JobCounts,
    JobPage,
    ListJobs,
    Submitted,
    Viewer,
)
from clusterra_contracts.rpc.slurm_jobs import ChangeJob, Hold
from clusterra_lab.machine.process import until
from clusterra_proxy.slurmrestd.notation.comment import Comment
from clusterra_proxy.watch.job_facts import UNKNOWN_UID
from clusterra_runtime.nats.rpc import RpcFailed
from proxy_world import ProxyWorld, find_pending, submission
from slurm_world import SlurmWorld, placeholder_names

LONG = "#!/bin/sh\nsleep 600\n"


async def wait_until_running(proxy: ProxyWorld, user: SlurmUser, job_id: str) -> Job:
    async def runs() -> Job | None:
        job = await proxy.job(user, job_id)
        return job if job.state == "RUNNING" else None

    return await until(runs, seconds=90, what=f"job {job_id} to run", every=0.05)


async def test_a_submitted_job_is_in_the_next_snapshot(proxy: ProxyWorld, alice: SlurmUser) -> None:
    submitted = await proxy.submit(alice, name="first", hold=True, cpus_per_task=2, constraints="general")
    snapshot = await proxy.until_snapshot(lambda snapshot: find_pending(snapshot, submitted.job_id) is not None)
    group = find_pending(snapshot, submitted.job_id)

    assert group is not None
    assert (group.uid, group.cpus, group.features, group.held) == (alice.uid, 2, "general", True)

    await proxy.cancel(alice, submitted.job_id)
    await proxy.until_snapshot(lambda snapshot: find_pending(snapshot, submitted.job_id) is None)


async def test_a_job_shows_its_description_and_end(proxy: ProxyWorld, alice: SlurmUser) -> None:
    script = "#!/bin/sh\n#SBATCH --job-name=described\n#SBATCH -t 10\n#SBATCH --mem=500\nexit 3\n"
    submitted = await proxy.submit(alice, script, standard_error="/dev/null")
    job = await proxy.wait_for_end(alice, submitted.job_id)

    assert (job.name, job.state, job.exit_code, job.reason) == ("described", "FAILED", 3, "NonZeroExitCode")
    assert (job.time_limit_seconds, job.memory_per_node_mib, job.memory_per_cpu_mib) == (600, 500, None)
    assert (job.user, job.uid, job.partition, job.node_count) == (alice.name, alice.uid, "main", 1)
    assert job.standard_error == "/dev/null"
    assert job.started_at is not None
    assert job.ended_at is not None
    assert abs(job.submitted_at - submitted.accepted_at) < timedelta(seconds=30)


async def test_scripts_that_sbatch_would_reject_are_invalid(proxy: ProxyWorld, alice: SlurmUser) -> None:
    for script, words in (
        ("echo hello\n", "line 1"),
        ("#!/bin/sh\necho\r\nexit\r\n", "line 2"),
        ("#!/bin/sh\n\n#SBATCH --container=mine\n", "line 3"),
        ("#!/bin/sh\n#SBATCH --uid=0\n", "line 2"),
    ):
        error = await proxy.error_of("submit", submission(alice, script))
        assert error.kind == "invalid"
        assert words in error.detail
        assert error.hint


async def test_a_job_that_no_worker_could_run_is_rejected_with_the_limit(proxy: ProxyWorld, alice: SlurmUser) -> None:
    for script, job, words in (
        ("", {"cpus_per_task": 65}, "64 (general-xlarge)"),
        ("#SBATCH -c 65", {}, "64 (general-xlarge)"),
        ("#SBATCH -C memory -c 5", {}, "4 (memory-small)"),
        ("#SBATCH -N 101", {}, "100 workers"),
        ("#SBATCH --mem=257G", {}, "262144 (general-xlarge)"),
        ("#SBATCH -C nothing-has-this", {}, "nothing-has-this"),
        ("#SBATCH -C nothing|never", {}, "Invalid feature"),
        ("#SBATCH --gres=gpu:1", {}, "0 (general-xlarge)"),
        ("", {"required_nodes": ("placeholder-x-1",)}, "placeholder"),
    ):
        error = await proxy.error_of("submit", submission(alice, f"#!/bin/sh\n{script}\n", **job))
        assert error.kind == "rejected", error
        assert words in error.detail, error
        assert error.hint, error


async def test_a_job_without_a_worker_is_accepted_without_warning(proxy: ProxyWorld, alice: SlurmUser) -> None:
    for job in ({"cpus_per_task": 60}, {"nodes": "100", "cpus_per_task": 60}, {"nodes": "3", "constraints": "memory"}):
        submitted = await proxy.submit(alice, **job)
        assert submitted.warnings == ()
        await proxy.cancel(alice, submitted.job_id)


async def test_a_job_that_is_wanted_held_is_accepted_without_warning(proxy: ProxyWorld, alice: SlurmUser) -> None:
    submitted = await proxy.submit(alice, hold=True)

    job = await proxy.job(alice, submitted.job_id)
    await proxy.cancel(alice, submitted.job_id)

    assert (submitted.warnings, job.reason) == ((), "JobHeldUser")


async def test_a_submit_waits_for_lost_placeholders(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    done = await slurm.cluster.run("scontrol", "delete", f"nodename={','.join(await placeholder_names(slurm))}")
    assert done.returncode == 0, done
    job_id = (await proxy.submit(alice, cpus_per_task=60)).job_id
    assert (await proxy.job(alice, job_id)).state == "PENDING"
    await proxy.cancel(alice, job_id)


async def test_a_repeated_key_returns_the_same_job(proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser) -> None:
    first = await proxy.submit(alice, key="key-00001")
    again = await proxy.submit(alice, key="key-00001")
    assert (again.job_id, first.repeated, again.repeated) == (first.job_id, False, True)
    assert (await proxy.submit(alice, key="key-00002")).job_id != first.job_id
    assert (await proxy.submit(bob, key="key-00001")).job_id != first.job_id


async def test_concurrent_submits_with_one_key_create_one_job(proxy: ProxyWorld, alice: SlurmUser) -> None:
    """The gateway's claim prevents this, unless the gateway is of an earlier release."""
    tried = await asyncio.gather(*(proxy.submit(alice, key="key-00003") for _ in range(10)), return_exceptions=True)
    submitted = [each for each in tried if isinstance(each, Submitted)]
    refused = [each.error for each in tried if isinstance(each, RpcFailed)]

    assert len(submitted) + len(refused) == 10
    assert len({each.job_id for each in submitted}) == 1
    assert {(error.kind, error.effect) for error in refused} <= {("unavailable", "none")}
    assert (await proxy.jobs(alice)).total == 1


async def test_another_users_job_is_not_found(proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser) -> None:
    submitted = await proxy.submit(alice, hold=True)
    request = GetJob(viewer=Viewer(user=bob), job_id=submitted.job_id)

    assert (await proxy.error_of("get", request)).kind == "not_found"

    job = await proxy.call("get", GetJob(viewer=Viewer(user=bob, admin=True), job_id=submitted.job_id), Job)
    assert job.user == alice.name
    assert (await proxy.jobs(bob)).jobs == ()
    assert (await proxy.jobs(bob, admin=True, user=alice.name)).total == 1

    await proxy.cancel(alice, submitted.job_id)


async def test_who_sees_everybodys_jobs_reads_them_and_changes_none(
    proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    job_id = (await proxy.submit(alice, hold=True)).job_id
    everybody = Viewer(user=bob, sees_all=True)

    assert (await proxy.call("get", GetJob(viewer=everybody, job_id=job_id), Job)).user == alice.name
    page = await proxy.call("list", ListJobs(viewer=everybody), JobPage)
    assert job_id in {job.job_id for job in page.jobs}

    assert (await proxy.error_of("cancel", Cancel(viewer=everybody, job_id=job_id))).kind == "forbidden"
    hold = ChangeJob(viewer=everybody, jobs=job_id, change=Hold())
    assert (await proxy.error_of("change", hold)).kind == "forbidden"
    assert (await proxy.job(alice, job_id)).state == "PENDING"
    await proxy.cancel(alice, job_id)


async def test_only_the_owner_cancels_and_repeating_it_succeeds(
    proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    waiting = (await proxy.submit(alice, hold=True)).job_id
    busy = (await proxy.submit(alice, LONG)).job_id
    await wait_until_running(proxy, alice, busy)
    for job_id in (waiting, busy):
        request = Cancel(viewer=Viewer(user=bob), job_id=job_id)
        assert (await proxy.error_of("cancel", request)).kind == "not_found"
        await proxy.cancel(alice, job_id)
        job = await proxy.wait_for_end(alice, job_id)
        assert job.state == "CANCELLED"
        # Cancelling an ended job succeeds.
        await proxy.cancel(alice, job_id)
    unknown = Cancel(viewer=Viewer(user=alice), job_id="999999")

    assert (await proxy.error_of("cancel", unknown)).kind == "not_found"


async def test_an_admin_cancels_another_users_job(proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser) -> None:
    job_id = (await proxy.submit(alice, hold=True)).job_id
    await proxy.cancel(bob, job_id, admin=True)
    assert (await proxy.wait_for_end(alice, job_id)).state == "CANCELLED"


async def test_an_array_and_its_tasks(proxy: ProxyWorld, alice: SlurmUser) -> None:
    script = "#!/bin/sh\nexit $SLURM_ARRAY_TASK_ID\n"
    array = (await proxy.submit(alice, script, array="0-2")).job_id
    whole = await proxy.wait_for_end(alice, array)

    assert (whole.job_id, whole.state, whole.exit_code) == (array, "FAILED", 2)

    tasks = [await proxy.job(alice, f"{array}_{task}") for task in range(3)]
    assert [task.state for task in tasks] == ["COMPLETED", "FAILED", "FAILED"]
    assert tasks[1].standard_output.endswith(f"/job_{array}_1.out")

    missing = GetJob(viewer=Viewer(user=alice), job_id=f"{array}_7")
    assert (await proxy.error_of("get", missing)).kind == "not_found"


async def test_waiting_tasks_of_an_array(proxy: ProxyWorld, alice: SlurmUser) -> None:
    array = (await proxy.submit(alice, array="0-4%2", hold=True)).job_id
    whole, task = await proxy.job(alice, array), await proxy.job(alice, f"{array}_3")

    assert (whole.state, whole.array_tasks.partition("%")[0]) == ("PENDING", "0-4")
    assert (task.job_id, task.state, task.array_tasks) == (f"{array}_3", "PENDING", "")

    missing = GetJob(viewer=Viewer(user=alice), job_id=f"{array}_7")
    assert (await proxy.error_of("get", missing)).kind == "not_found"

    await proxy.cancel(alice, f"{array}_3")
    cancelled = await proxy.wait_for_end(alice, f"{array}_3")

    assert (cancelled.job_id, cancelled.state, cancelled.started_at) == (f"{array}_3", "CANCELLED", None)
    assert (await proxy.job(alice, array)).array_tasks == "0-2,4"

    await proxy.cancel(alice, array)
    whole = await proxy.wait_for_end(alice, array)

    assert (whole.state, whole.job_id) == ("CANCELLED", array)
    # It has ended, so that nobody waits for its tasks; that there were some is told apart.
    assert (whole.array_tasks, whole.unstarted_tasks) == ("", "0-2,4")
    listed = [job for job in (await proxy.jobs(alice)).jobs if job.job_id == array]
    assert [job.unstarted_tasks for job in listed] == ["0-2,4"]
    one = await proxy.job(alice, f"{array}_2")
    assert (one.job_id, one.state, one.unstarted_tasks) == (f"{array}_2", "CANCELLED", "")


async def test_lists_are_filtered_and_come_in_pages(proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser) -> None:
    await proxy.slurm.add_account("physics")
    began = now()
    names = [f"job{number}" for number in range(7)]
    ids = [(await proxy.submit(alice, name=name, hold=True, account="physics")).job_id for name in names]
    foreign = (await proxy.submit(bob, hold=True)).job_id
    await proxy.cancel(alice, ids[0])
    await proxy.wait_for_end(alice, ids[0])

    newest_first = list(reversed(ids))
    assert [job.job_id for job in (await proxy.jobs(alice)).jobs] == newest_first

    read: list[str] = []
    cursor = None
    while True:
        page = await proxy.jobs(alice, limit=3, cursor=cursor)
        assert page.total == 7
        read.extend(job.job_id for job in page.jobs)
        if (cursor := page.cursor) is None:
            break

    assert read == newest_first

    assert [job.job_id for job in (await proxy.jobs(alice, states=("CANCELLED",))).jobs] == [ids[0]]
    assert (await proxy.jobs(alice, states=("PENDING",))).total == 6
    of_search = ListJobs(viewer=Viewer(user=alice), search="JOB", states=("FAILED",), limit=1)
    counts = await proxy.call("count", CountJobs(request=of_search), JobCounts)
    assert (counts.states, counts.total) == ({"CANCELLED": 1, "PENDING": 6}, 7)
    assert [job.job_id for job in (await proxy.jobs(alice, search="OB4")).jobs] == [ids[4]]
    assert ids[2] in {job.job_id for job in (await proxy.jobs(alice, search=ids[2])).jobs}
    assert [job.job_id for job in (await proxy.jobs(alice, name="job4")).jobs] == [ids[4]]
    assert [job.job_id for job in (await proxy.jobs(alice, sort="submitted")).jobs] == ids
    assert [job.name for job in (await proxy.jobs(alice, sort="-name", limit=2)).jobs] == ["job6", "job5"]
    mine = await proxy.job(alice, ids[1])
    assert (mine.account, bool(mine.partition)) == ("physics", True)
    for field in ("account", "partition", "qos"):
        same: dict[str, Any] = {field: getattr(mine, field)}
        assert (await proxy.jobs(alice, **same)).total == 7
        other: dict[str, Any] = {field: "other"}
        assert (await proxy.jobs(alice, **other)).total == 0
    assert (await proxy.jobs(alice, submitted_after=now() + timedelta(hours=1))).total == 0
    assert (await proxy.jobs(alice, submitted_before=began - timedelta(seconds=2))).total == 0
    assert (await proxy.jobs(alice, submitted_after=began - timedelta(seconds=2))).total == 7

    everybody = await proxy.jobs(alice, admin=True, limit=1000, submitted_after=began - timedelta(seconds=2))
    assert {*ids, foreign} <= {job.job_id for job in everybody.jobs}
    assert [job.job_id for job in (await proxy.jobs(alice, admin=True, user=bob.name)).jobs] == [foreign]

    invalid = ListJobs(viewer=Viewer(user=alice), cursor="invalid")
    assert (await proxy.error_of("list", invalid)).kind == "invalid"

    for job_id in ids[1:]:
        await proxy.cancel(alice, job_id)
    await proxy.cancel(bob, foreign)


USES_MEMORY = """\
#!/bin/bash
text=$(head -c 60000000 /dev/zero | tr '\\0' x)
sleep 3
"""
"""Slurm measures memory every second."""


async def test_purged_jobs_are_read_from_accounting(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    began = now() - timedelta(seconds=2)
    job_id = (await proxy.submit(alice, USES_MEMORY, name="old")).job_id
    by_sbatch = await slurm.cluster.sbatch(alice, "#!/bin/sh\ntrue\n", "--job-name=older", "--output=/dev/null")
    comment = f"--comment={Comment(user=alice.name, uid=str(alice.uid))}"
    forged = await slurm.cluster.sbatch(bob, "#!/bin/sh\ntrue\n", comment, "--output=/dev/null")
    for user, each in ((alice, job_id), (alice, by_sbatch), (bob, forged)):
        await proxy.wait_for_end(user, each)
    # The purge forgets this list, although it is younger than it may become.
    assert (await proxy.jobs(alice, submitted_after=began)).total == 2
    await slurm.purge_finished_jobs(job_id, by_sbatch, forged)

    async def removed() -> bool:
        return (await proxy.jobs(alice)).total == 0

    await until(removed, seconds=90, what="the proxy to remove them too", every=0.1)
    job = await proxy.job(alice, job_id)

    assert (job.state, job.name, job.user, job.uid) == ("COMPLETED", "old", alice.name, alice.uid)
    assert job.standard_output.endswith(f"/job_{job_id}.out")
    assert job.peak_memory_mib is not None
    assert job.cpu_efficiency is not None
    assert job.peak_memory_mib >= 50
    assert job.cpu_efficiency > 0

    listed = await proxy.jobs(alice, submitted_after=began)
    assert {(job.job_id, job.uid) for job in listed.jobs} == {(job_id, alice.uid), (by_sbatch, alice.uid)}
    assert [job.job_id for job in (await proxy.jobs(bob, submitted_after=began)).jobs] == [forged]

    everybody = await proxy.jobs(bob, admin=True, submitted_after=began, limit=1000)
    owners = {job.job_id: job.uid for job in everybody.jobs}

    # The owner in a comment is not trusted.
    assert (owners[job_id], owners[forged]) == (alice.uid, UNKNOWN_UID)

    request = GetJob(viewer=Viewer(user=bob), job_id=job_id)
    assert (await proxy.error_of("get", request)).kind == "not_found"

    await proxy.cancel(alice, job_id)
    assert (await proxy.error_of("cancel", Cancel(viewer=Viewer(user=bob), job_id=job_id))).kind == "not_found"


async def test_an_array_has_run_whose_tasks_are_purged_and_whose_rest_is_cancelled(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    array = (await proxy.submit(alice, "#!/bin/sh\nexit 3\n", array="0-3", hold=True)).job_id
    first = f"{array}_0"
    released = await slurm.cluster.run("scontrol", "release", first)
    await proxy.wait_for_end(alice, first)
    async with slurm.slurmctld() as slurmctld:
        records = await slurmctld.job(slurm.token(slurm.operator), array)
    # The list of states has the number of a task's record before the `_`.
    await slurm.purge_finished_jobs(*(f"{record.job_id}_0" for record in records if record.id == first))

    await proxy.cancel(alice, array)
    whole = await proxy.wait_for_end(alice, array)

    assert released.returncode == 0, released
    assert (whole.job_id, whole.state, whole.exit_code) == (array, "FAILED", 3)
    assert whole.started_at is not None


async def test_a_cancelled_job_without_a_limit_has_neither_limit_nor_exit_code(
    proxy: ProxyWorld, workers: None, alice: SlurmUser
) -> None:
    submitted = await proxy.submit(alice, LONG, time_limit=None)
    waiting = await proxy.job(alice, submitted.job_id)
    running = await wait_until_running(proxy, alice, submitted.job_id)
    await proxy.cancel(alice, submitted.job_id)
    ended = await proxy.wait_for_end(alice, submitted.job_id)

    assert [each.time_limit_seconds for each in (waiting, running, ended)] == [None, None, None]
    assert (ended.state, ended.exit_code) == ("CANCELLED", None)

    async def told() -> JobFact | None:
        facts = [event.data for event in await proxy.events("job.cancelled")]
        return next((fact for fact in facts if isinstance(fact, JobFact) and fact.job_id == submitted.job_id), None)

    assert (await until(told, seconds=90, what="the event of the cancel", every=0.05)).exit_code is None
