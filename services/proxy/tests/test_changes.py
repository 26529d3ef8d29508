"""Jobs are changed after their submit: hold, release, requeue, signal, update; and the job's history names who did."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from clusterra_contracts.events import JobActionFact
from clusterra_contracts.identity import JobId, SlurmUser, now
from clusterra_contracts.rpc.reply import Done, RpcError
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_contracts.rpc.slurm_jobs import (
    Action,
    CancelTasks,
    ChangeJob,
    FurtherChanges,
    Hold,
    JobChanges,
    Release,
    Requeue,
    SendSignal,
    Update,
)
from clusterra_lab.machine.process import until
from proxy_world import ProxyWorld
from slurm_world import SlurmWorld

WAIT = "#!/bin/sh\nwhile :; do sleep 0.2; done\n"
NEVER = 4_000_000_000
"""A job that begins then is pending and not held."""


async def change(proxy: ProxyWorld, user: SlurmUser, jobs: str, action: Action, *, admin: bool = False) -> None:
    await proxy.call("change", ChangeJob(viewer=Viewer(user=user, admin=admin), jobs=jobs, change=action), Done)


async def error_of(proxy: ProxyWorld, user: SlurmUser, jobs: str, action: Action, *, admin: bool = False) -> RpcError:
    request = ChangeJob(viewer=Viewer(user=user, admin=admin), jobs=jobs, change=action)
    return await proxy.error_of("change", request)


async def until_job(proxy: ProxyWorld, user: SlurmUser, job_id: str, **wanted: Any) -> Job:
    async def as_wanted() -> Job | None:
        job = await proxy.job(user, job_id)
        return job if all(getattr(job, name) == value for name, value in wanted.items()) else None

    return await until(as_wanted, seconds=60, what=f"{job_id} with {wanted}", every=0.1)


async def actions(proxy: ProxyWorld, job_id: str) -> list[JobActionFact]:
    return [event.data for event in await proxy.events("action.*") if event.subject == job_id]  # type: ignore[misc]


@pytest.fixture
async def waiting(proxy: ProxyWorld, alice: SlurmUser) -> AsyncIterator[JobId]:
    """A pending job of alice."""
    job_id = (await proxy.submit(alice, begin_time=NEVER, name="before")).job_id
    yield job_id
    await proxy.cancel(alice, job_id)


@pytest.fixture
async def held_by_admin(proxy: ProxyWorld, bob: SlurmUser, waiting: JobId) -> JobId:
    """A pending job of alice that bob holds as an admin."""
    await change(proxy, bob, waiting, Hold(), admin=True)
    return waiting


@pytest.fixture
async def array(proxy: ProxyWorld, alice: SlurmUser) -> AsyncIterator[JobId]:
    """A pending array of alice with ten tasks."""
    job_id = (await proxy.submit(alice, WAIT, array="0-9", begin_time=NEVER)).job_id
    yield job_id
    await proxy.cancel(alice, job_id)


async def test_a_pending_job_is_held_and_released(proxy: ProxyWorld, alice: SlurmUser) -> None:
    job_id = (await proxy.submit(alice, begin_time=NEVER, name="waits")).job_id

    await change(proxy, alice, job_id, Hold())
    assert (await proxy.job(alice, job_id)).reason == "JobHeldUser"
    await change(proxy, alice, job_id, Hold())

    await change(proxy, alice, job_id, Release())
    assert (await proxy.job(alice, job_id)).reason != "JobHeldUser"
    await change(proxy, alice, job_id, Release())

    await proxy.cancel(alice, job_id)
    told = await actions(proxy, job_id)
    assert [fact.kind.partition(".")[2] for fact in told] == ["hold", "hold", "release", "release", "cancel"]
    assert {(fact.actor, fact.user, fact.uid, fact.name) for fact in told} == {
        (alice.name, alice.name, alice.uid, "waits")
    }


async def test_nobody_else_holds_a_job(proxy: ProxyWorld, bob: SlurmUser, waiting: JobId) -> None:
    refused = await error_of(proxy, bob, waiting, Hold())

    assert refused.kind == "not_found"


async def test_a_job_shows_that_an_admin_holds_it(proxy: ProxyWorld, alice: SlurmUser, held_by_admin: JobId) -> None:
    job = await proxy.job(alice, held_by_admin)

    assert job.reason == "JobHeldAdmin"


async def test_its_owner_does_not_release_what_an_admin_holds(
    proxy: ProxyWorld, alice: SlurmUser, held_by_admin: JobId
) -> None:
    refused = await error_of(proxy, alice, held_by_admin, Release())

    assert (refused.kind, refused.code) == ("forbidden", 2002)
    assert "permission" in refused.detail
    assert refused.hint == "an admin holds it: only an admin can release it"


async def test_the_admin_who_holds_a_job_of_their_own_releases_it(
    proxy: ProxyWorld, alice: SlurmUser, held_by_admin: JobId
) -> None:
    await change(proxy, alice, held_by_admin, Release(), admin=True)

    assert (await proxy.job(alice, held_by_admin)).reason != "JobHeldAdmin"


async def test_an_admin_releases_what_an_admin_holds_and_the_history_names_them(
    proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser, held_by_admin: JobId
) -> None:
    await change(proxy, bob, held_by_admin, Release(), admin=True)

    assert (await proxy.job(alice, held_by_admin)).reason != "JobHeldAdmin"
    assert [(fact.kind, fact.actor, fact.user) for fact in await actions(proxy, held_by_admin)] == [
        ("action.hold", bob.name, alice.name),
        ("action.release", bob.name, alice.name),
    ]


async def test_what_a_state_does_not_allow_is_a_conflict(proxy: ProxyWorld, alice: SlurmUser) -> None:
    waiting = (await proxy.submit(alice, begin_time=NEVER)).job_id
    running = (await proxy.submit(alice, WAIT)).job_id
    await until_job(proxy, alice, running, state="RUNNING")

    wrong: tuple[tuple[str, Action], ...] = (
        (waiting, Requeue()),
        (waiting, SendSignal(signal="USR1")),
        (running, Hold()),
        (running, Release()),
        (running, Update(changes=JobChanges(dependency="singleton"))),
    )
    for jobs, action in wrong:
        refused = await error_of(proxy, alice, jobs, action)
        assert (refused.kind, bool(refused.hint)) == ("conflict", True), (action, refused)

    await proxy.cancel(alice, running)
    await proxy.wait_for_end(alice, running)
    for action in (Hold(), Release(), SendSignal(signal="USR1"), Update(changes=JobChanges(nice=1))):
        assert (await error_of(proxy, alice, running, action)).kind == "conflict", action
    for unknown in (Hold(), Requeue(), SendSignal(signal="USR1"), CancelTasks()):
        assert (await error_of(proxy, alice, "999999", unknown)).kind == "not_found", unknown
    assert await actions(proxy, waiting) == []
    await proxy.cancel(alice, waiting)


async def test_a_running_job_is_signalled_and_requeued(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    script = "#!/bin/sh\ntrap 'echo caught' USR1\necho trapping\n" + WAIT.partition("\n")[2]
    job_id = (await proxy.submit(alice, script)).job_id
    await until_job(proxy, alice, job_id, state="RUNNING")
    output = slurm.shared / f"job_{job_id}.out"

    def said(word: str) -> bool:
        return output.exists() and word in output.read_text()

    # A signal that arrives before the shell sets its trap would end the job.
    await until(lambda: said("trapping"), seconds=90, what="the trap", every=0.1)
    await change(proxy, alice, job_id, SendSignal(signal="USR1", batch_only=True))
    await until(lambda: said("caught"), seconds=90, what="the signal", every=0.1)

    await change(proxy, alice, job_id, Requeue(hold=True))
    held = await until_job(proxy, alice, job_id, state="PENDING", reason="JobHeldUser")
    assert held.job_id == job_id
    await change(proxy, alice, job_id, Release())
    await until_job(proxy, alice, job_id, state="RUNNING")
    await proxy.cancel(alice, job_id)
    await proxy.wait_for_end(alice, job_id)

    told = [(fact.kind, fact.detail) for fact in await actions(proxy, job_id)]
    assert told[0] == ("action.signal", "USR1")
    assert told[-3:] == [("action.requeue", ""), ("action.release", ""), ("action.cancel", "")]


async def test_a_job_that_starts_again_after_its_end_is_listed_once(proxy: ProxyWorld, alice: SlurmUser) -> None:
    began = now() - timedelta(seconds=2)
    job_id = (await proxy.submit(alice, WAIT)).job_id
    await until_job(proxy, alice, job_id, state="RUNNING")
    await proxy.cancel(alice, job_id)
    await proxy.wait_for_end(alice, job_id)
    await change(proxy, alice, job_id, Requeue(hold=True))
    await until_job(proxy, alice, job_id, state="PENDING", reason="JobHeldUser")

    found = await proxy.jobs(alice, submitted_after=began)
    assert [job.state for job in found.jobs if job.job_id == job_id] == ["PENDING"]
    await proxy.cancel(alice, job_id)


async def test_a_description_is_updated(proxy: ProxyWorld, alice: SlurmUser, waiting: JobId) -> None:
    await change(proxy, alice, waiting, Update(changes=JobChanges(name="after", time_limit=30, nice=100)))

    job = await proxy.job(alice, waiting)
    (action,) = await actions(proxy, waiting)
    assert (job.name, job.time_limit_seconds) == ("after", 1800)
    assert action.detail == "name=after, nice=100, time_limit=30"


@pytest.fixture
async def running(proxy: ProxyWorld, alice: SlurmUser) -> AsyncIterator[JobId]:
    """A running job of alice with a limit of an hour."""
    job_id = (await proxy.submit(alice, WAIT, time_limit=60)).job_id
    await until_job(proxy, alice, job_id, state="RUNNING")
    yield job_id
    await proxy.cancel(alice, job_id)


def limited(minutes: int) -> Update:
    return Update(changes=JobChanges(time_limit=minutes))


async def test_its_owner_lowers_the_limit_of_a_running_job_and_is_told_who_raises_it(
    proxy: ProxyWorld, alice: SlurmUser, running: JobId
) -> None:
    await change(proxy, alice, running, limited(30))
    refused = await error_of(proxy, alice, running, limited(31))

    assert (await proxy.job(alice, running)).time_limit_seconds == 1800
    assert (refused.kind, refused.code) == ("forbidden", 2002)
    assert refused.hint.startswith("Slurm lets only an operator raise the time limit of a job that has started")
    assert "another user" not in refused.detail + refused.hint


@pytest.mark.parametrize("owner", [True, False])
async def test_an_admin_raises_the_limit_of_a_running_job_their_own_too(
    proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser, running: JobId, *, owner: bool
) -> None:
    await change(proxy, alice if owner else bob, running, limited(90), admin=True)

    assert (await proxy.job(alice, running)).time_limit_seconds == 5400
    assert [(fact.kind, fact.detail) for fact in await actions(proxy, running)] == [("action.update", "time_limit=90")]


async def test_its_owner_raises_and_lowers_the_limit_of_a_pending_job(
    proxy: ProxyWorld, alice: SlurmUser, waiting: JobId
) -> None:
    limits = []
    for minutes in (30, 90, 20):
        await change(proxy, alice, waiting, limited(minutes))
        limits.append((await proxy.job(alice, waiting)).time_limit_seconds)

    assert limits == [1800, 5400, 1200]


async def test_an_update_of_nothing_is_no_action(proxy: ProxyWorld, alice: SlurmUser, waiting: JobId) -> None:
    await change(proxy, alice, waiting, Update(changes=JobChanges()))

    assert await actions(proxy, waiting) == []


@pytest.mark.parametrize(
    ("field", "value"), [("dependency", "afterany:{job_id}"), ("partition", "nowhere")], ids=["itself", "unknown"]
)
async def test_what_slurm_refuses_is_told(
    proxy: ProxyWorld, alice: SlurmUser, waiting: JobId, field: str, value: str
) -> None:
    changes = JobChanges.model_validate({field: value.format(job_id=waiting)})

    refused = await error_of(proxy, alice, waiting, Update(changes=changes))

    assert (refused.kind, field in refused.detail, bool(refused.hint)) == ("rejected", True, True), refused


async def test_an_array_is_held_as_one(proxy: ProxyWorld, alice: SlurmUser, array: JobId) -> None:
    await change(proxy, alice, array, Hold())

    assert (await proxy.job(alice, array)).reason == "JobHeldUser"
    assert [(fact.kind, fact.tasks) for fact in await actions(proxy, array)] == [("action.hold", "")]


async def test_some_tasks_of_a_held_array_are_cancelled(proxy: ProxyWorld, alice: SlurmUser, array: JobId) -> None:
    await change(proxy, alice, array, Hold())

    await change(proxy, alice, f"{array}_[6-7,9]", CancelTasks())

    await until_job(proxy, alice, array, array_tasks="0-5,8")
    assert [(fact.kind, fact.tasks) for fact in await actions(proxy, array)] == [
        ("action.hold", ""),
        ("action.cancel", "6-7,9"),
    ]


async def test_a_task_of_a_held_array_is_not_released_alone(proxy: ProxyWorld, alice: SlurmUser, array: JobId) -> None:
    await change(proxy, alice, array, Hold())

    refused = await error_of(proxy, alice, f"{array}_3", Release())

    assert (refused.kind, array in refused.hint) == ("rejected", True)


@pytest.mark.parametrize("tasks", ["77", "[20-30]"])
async def test_tasks_that_an_array_does_not_have_are_not_found(
    proxy: ProxyWorld, alice: SlurmUser, array: JobId, tasks: str
) -> None:
    refused = await error_of(proxy, alice, f"{array}_{tasks}", Hold())

    assert refused.kind == "not_found"


async def test_tasks_that_have_started_are_requeued_held_and_released(proxy: ProxyWorld, alice: SlurmUser) -> None:
    array = (await proxy.submit(alice, WAIT, array="0-2")).job_id
    for task in range(3):
        await until_job(proxy, alice, f"{array}_{task}", state="RUNNING")

    await change(proxy, alice, f"{array}_[0-1]", Requeue(hold=True))
    for task in range(2):
        await until_job(proxy, alice, f"{array}_{task}", state="PENDING", reason="JobHeldUser")
    assert (await proxy.job(alice, f"{array}_2")).state == "RUNNING"

    await change(proxy, alice, f"{array}_1", Release())
    await until_job(proxy, alice, f"{array}_1", state="RUNNING")
    assert (await proxy.job(alice, f"{array}_0")).reason == "JobHeldUser"
    await proxy.cancel(alice, array)
    await proxy.wait_for_end(alice, array)


@pytest.mark.parametrize(
    "jobs", ["0", "42_", "42_[", "42_[]", "42_[1-]", "42_[1%2]", "42;43", "../1", "4_[" + "1," * 300 + "1]"]
)
def test_no_other_text_selects_jobs(
    jobs: str,
) -> None:
    viewer = Viewer(user=SlurmUser(name="alice", uid=5001, gid=5001))
    with pytest.raises(ValueError, match="jobs"):
        ChangeJob(viewer=viewer, jobs=jobs, change=Hold())


async def test_a_job_gets_more_tasks_with_their_cpus_and_other_memory(proxy: ProxyWorld, alice: SlurmUser) -> None:
    job_id = (await proxy.submit(alice, hold=True, tasks=2, cpus_per_task=2, memory_per_node=500)).job_id

    sizes = []
    for further in (
        FurtherChanges(tasks=3),
        FurtherChanges(memory_per_cpu=300),
        FurtherChanges(tasks=1, memory_per_node=900),
    ):
        await change(proxy, alice, job_id, Update(changes=JobChanges(), further=further))
        job = await proxy.job(alice, job_id)
        sizes.append((job.tasks, job.cpus, job.memory_per_node_mib, job.memory_per_cpu_mib))

    await proxy.cancel(alice, job_id)
    assert sizes == [(3, 6, 500, None), (3, 6, None, 300), (1, 2, 900, None)]


@pytest.mark.parametrize(
    ("further", "kind", "text"),
    [
        (FurtherChanges(memory_per_node=1_000_000), "rejected", "the job needs 1000000 MiB of memory on each node"),
        (FurtherChanges(tasks=100_000), "rejected", "on each node, but the largest worker"),
        (FurtherChanges(memory_per_node=1, memory_per_cpu=1), "invalid", "exclude each other"),
        (FurtherChanges(tasks=200), "rejected", ""),
    ],
)
async def test_a_size_that_no_worker_has_leaves_the_job_as_it_was(
    proxy: ProxyWorld, alice: SlurmUser, further: FurtherChanges, kind: str, text: str
) -> None:
    job_id = (await proxy.submit(alice, hold=True, tasks=2, nodes="1")).job_id
    before = await proxy.job(alice, job_id)

    error = await error_of(proxy, alice, job_id, Update(changes=JobChanges(), further=further))
    after = await proxy.job(alice, job_id)

    await proxy.cancel(alice, job_id)
    assert (error.kind, text in error.detail) == (kind, True), error
    assert after == before


async def test_the_sizes_of_a_running_job_stay(proxy: ProxyWorld, alice: SlurmUser) -> None:
    job_id = (await proxy.submit(alice, WAIT)).job_id
    await until_job(proxy, alice, job_id, state="RUNNING")

    errors = [
        await error_of(proxy, alice, job_id, Update(changes=JobChanges(), further=further))
        for further in (FurtherChanges(memory_per_node=300), FurtherChanges(tasks=2))
    ]

    await proxy.cancel(alice, job_id)
    assert {error.kind for error in errors} == {"conflict"}, errors
