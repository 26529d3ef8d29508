"""The watcher: events are published once, also across a kill and restart, and snapshots follow Slurm."""

import asyncio
import time
from collections import Counter

import pytest
from clusterra_contracts.events import JOB_ENDS, JobFact
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm import Cancel, Submitted, Viewer
from clusterra_contracts.rpc.slurm_jobs import ChangeJob, Release, Requeue
from clusterra_lab.machine.process import until
from clusterra_proxy.watch.job_facts import UNKNOWN_UID
from proxy_world import ProxyWorld, find_pending, proxy_world, submission
from slurm_world import SlurmWorld

TRUE = "#!/bin/sh\ntrue\n"
QUIET = ("--output=/dev/null",)
WHOLE_LIFE = ("submitted", "running", "completed")


async def wait_for_events(proxy: ProxyWorld, *expected: str, seconds: float = 30) -> None:
    """Wait until exactly these events of their jobs are published, each once and in this order per job."""
    entities = {event.partition(" ")[0] for event in expected}

    async def all_published() -> bool:
        return set(expected) <= set(await proxy.event_lines(*entities))

    try:
        await until(all_published, seconds=seconds, what="the events", every=0.1)
    finally:
        published = await proxy.event_lines(*entities)
        for entity in entities:
            of_entity = [event for event in published if event.partition(" ")[0] == entity]
            assert of_entity == [event for event in expected if event.partition(" ")[0] == entity]


async def test_a_job_of_plain_sbatch_is_observed_within_a_second(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    job_id = await slurm.cluster.sbatch(alice, TRUE, "--hold", *QUIET)
    began = time.monotonic()
    snapshot = await proxy.until_snapshot(lambda snapshot: find_pending(snapshot, job_id) is not None, seconds=5)
    print(f"observed after {time.monotonic() - began:.3f} s")
    group = find_pending(snapshot, job_id)

    assert group is not None
    assert (group.uid, group.held) == (alice.uid, True)

    await proxy.cancel(alice, job_id)
    await wait_for_events(proxy, f"{job_id} job.submitted", f"{job_id} job.cancelled")


async def test_a_job_that_ends_between_two_polls_has_all_its_events(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    job_id = await slurm.cluster.sbatch(alice, "#!/bin/sh\nexit 4\n", "--job-name=quick", *QUIET)
    await wait_for_events(proxy, f"{job_id} job.submitted", f"{job_id} job.running", f"{job_id} job.failed")
    events = {event.kind: event for event in await proxy.events("job.*") if event.subject == job_id}
    failed = events["job.failed"].data.model_dump()

    assert (failed["exit_code"], failed["uid"], failed["name"], len(failed["nodes"])) == (4, alice.uid, "quick", 1)
    assert events["job.submitted"].time <= events["job.running"].time <= events["job.failed"].time
    assert events["job.failed"].source == "/clusterra/proxy/acme/c1"


async def test_events_of_an_array(proxy: ProxyWorld, alice: SlurmUser) -> None:
    array = (await proxy.submit(alice, array="0-4%2")).job_id
    tasks = [f"{array}_{task} job.{kind}" for task in range(5) for kind in ("running", "completed")]
    await wait_for_events(proxy, f"{array} job.submitted", *tasks)


async def told_ends(proxy: ProxyWorld, array: str) -> list[JobFact]:
    """The ends of an array's tasks, in the order of their events."""
    facts = [event.data for event in await proxy.events("job.*") if event.subject.startswith(f"{array}_")]
    return [fact for fact in facts if isinstance(fact, JobFact) and fact.kind in JOB_ENDS]


async def test_the_last_of_an_array_tells_that_no_task_is_left(proxy: ProxyWorld, alice: SlurmUser) -> None:
    """Also with tasks that are cancelled while they wait, and one that is requeued."""
    first_run = "[ $SLURM_ARRAY_TASK_ID$SLURM_RESTART_COUNT = 0 ]"
    script = f"#!/bin/sh\n{first_run} && sleep 600\nsleep 0.$SLURM_ARRAY_TASK_ID\n"
    array = (await proxy.submit(alice, script, array="0-11%4")).job_id
    await proxy.cancel(alice, f"{array}_11")

    async def has(task: int, kind: str) -> bool:
        return f"{array}_{task} {kind}" in await proxy.event_lines(f"{array}_{task}")

    await until(lambda: has(0, "job.running"), seconds=90, what="the start of the first task")
    viewer = Viewer(user=alice)
    await proxy.call("change", ChangeJob(viewer=viewer, jobs=f"{array}_0", change=Requeue(hold=True)), Done)
    await until(lambda: has(0, "job.requeued"), seconds=90, what="the requeue of the first task")
    await proxy.call("change", ChangeJob(viewer=viewer, jobs=f"{array}_0", change=Release()), Done)

    async def all_ended() -> bool:
        return len({fact.job_id for fact in await told_ends(proxy, array)}) == 12

    await until(all_ended, seconds=240, what="the ends of all tasks", every=0.2)
    ends = await told_ends(proxy, array)
    left = [fact.tasks_left for fact in ends]

    assert left[-1] == 0, left
    # What is read for a request between two polls does not tell it.
    assert left.count(None) <= 4, left
    # Several tasks that end between two polls have the same number: at most 4 run at a time.
    rest = range(len(left) - 1, -1, -1)
    assert all(told is None or after - 3 <= told <= after for told, after in zip(left, rest, strict=True)), left


async def test_events_of_an_array_with_a_cancelled_task(proxy: ProxyWorld, alice: SlurmUser) -> None:
    array = (await proxy.submit(alice, array="0-2", hold=True)).job_id
    await proxy.cancel(alice, f"{array}_1")
    await wait_for_events(proxy, f"{array} job.submitted", f"{array}_1 job.cancelled")
    await proxy.cancel(alice, array)
    await wait_for_events(proxy, f"{array} job.submitted", f"{array} job.cancelled", f"{array}_1 job.cancelled")


async def test_events_of_a_requeued_job(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    job_id = (await proxy.submit(alice, "#!/bin/sh\n[ $SLURM_RESTART_COUNT ] || sleep 60\n", requeue=True)).job_id
    await wait_for_events(proxy, f"{job_id} job.submitted", f"{job_id} job.running")

    assert (await slurm.cluster.run("scontrol", "requeue", job_id)).returncode == 0

    await wait_for_events(
        proxy,
        f"{job_id} job.submitted",
        f"{job_id} job.running",
        f"{job_id} job.requeued",
        f"{job_id} job.running",
        f"{job_id} job.completed",
    )


async def test_generations_and_times_of_snapshots_increase(proxy: ProxyWorld) -> None:
    generations = [snapshot.generation for snapshot in proxy.snapshots]
    assert generations == sorted(set(generations))
    moments = [snapshot.taken_at for snapshot in proxy.snapshots]
    assert moments == sorted(moments)


@pytest.mark.parametrize("signal", ["kill", "stop"])
async def test_events_are_published_once_across_a_restart(
    slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory, signal: str
) -> None:
    user = slurm.new_user()
    async with proxy_world(slurm, tmp_path_factory.mktemp(signal)) as proxy:
        before = [(await proxy.submit(user)).job_id for _ in range(3)]
        across = [(await proxy.submit(user, "#!/bin/sh\nsleep 3\n")).job_id for _ in range(3)]
        array = (await proxy.submit(user, "#!/bin/sh\nsleep 1\n", array="0-2%1")).job_id
        await wait_for_events(proxy, *(f"{across[0]} job.{kind}" for kind in ("submitted", "running")))
        generation = proxy.snapshots[-1].generation

        assert proxy.process is not None
        if signal == "kill":
            await proxy.kill()
        else:
            assert await proxy.process.stop() == 0
        meanwhile = [await slurm.cluster.sbatch(user, TRUE, *QUIET) for _ in range(3)]
        await proxy.start()
        after = [(await proxy.submit(user)).job_id for _ in range(2)]
        whole = [
            f"{job_id} job.{kind}"
            for job_id in (*before, *across, *meanwhile, *after)
            for kind in ("submitted", "running", "completed")
        ]
        tasks = [f"{array}_{task} job.{kind}" for task in range(3) for kind in ("running", "completed")]
        await wait_for_events(proxy, *whole, f"{array} job.submitted", *tasks)
        ids = Counter(event.id for event in await proxy.events())

        assert max(ids.values()) == 1

        nodes = Counter((event.subject, event.kind) for event in await proxy.events("node.*"))
        assert nodes["w1", "node.registered"] == 1
        assert proxy.snapshots[-1].generation > generation


async def test_events_of_jobs_purged_while_no_replica_watched_are_published(
    slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    user, stranger = slurm.new_user(), slurm.new_user()
    sleep = "#!/bin/sh\nsleep 1\n"
    async with proxy_world(slurm, tmp_path_factory.mktemp("purged")) as proxy:
        by_proxy = (await proxy.submit(user, sleep)).job_id
        by_sbatch = await slurm.cluster.sbatch(user, sleep, *QUIET)
        held = (await proxy.submit(user, hold=True)).job_id
        await wait_for_events(proxy, f"{held} job.submitted")
        await wait_for_events(
            proxy, *(f"{job_id} job.{kind}" for job_id in (by_proxy, by_sbatch) for kind in WHOLE_LIFE[:2])
        )
        await proxy.kill()
        while_down = await slurm.cluster.sbatch(stranger, TRUE, *QUIET)
        await slurm.cluster.run("scancel", held)
        await slurm.purge_finished_jobs(by_proxy, by_sbatch, held, while_down)
        await proxy.start()
        await wait_for_events(
            proxy,
            *(f"{job_id} job.{kind}" for job_id in (by_proxy, by_sbatch, while_down) for kind in WHOLE_LIFE),
            *(f"{held} job.{kind}" for kind in ("submitted", "cancelled")),
        )
        ends = {event.subject: event.data.model_dump() for event in await proxy.events("job.completed")}
        owners = {job_id: ends[job_id]["uid"] for job_id in (by_proxy, by_sbatch, while_down)}

        # Accounting holds no uid, so an owner without any published event is unknown.
        assert owners == {by_proxy: user.uid, by_sbatch: user.uid, while_down: UNKNOWN_UID}


async def test_an_unreachable_slurm_is_not_an_empty_queue(
    slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    user = slurm.new_user()
    async with proxy_world(slurm, tmp_path_factory.mktemp("unreachable")) as proxy:
        job_id = (await proxy.submit(user, hold=True)).job_id
        await slurm.cluster["slurmrestd"].kill()
        snapshot = await proxy.until_snapshot(lambda each: each.pending is None and each.nodes is None)

        assert snapshot.running is None
        assert (await proxy.error_of("cancel", Cancel(viewer=Viewer(user=user), job_id=job_id))).kind == "unavailable"

        await slurm.cluster["slurmrestd"].start()
        await proxy.until_snapshot(lambda snapshot: find_pending(snapshot, job_id) is not None, seconds=20)
        await proxy.cancel(user, job_id)
        await wait_for_events(proxy, f"{job_id} job.submitted", f"{job_id} job.cancelled")


async def test_a_stopped_slurmctld_is_unavailable_and_not_a_rejection(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    job_id = (await proxy.submit(alice, hold=True)).job_id
    request = submission(alice, key="key-away1", name="away", hold=True)
    await slurm.cluster["slurmctld"].stop()
    cancel, submit = await asyncio.gather(
        # slurmrestd answers this with 403, "Operation not permitted".
        proxy.error_of("cancel", Cancel(viewer=Viewer(user=alice), job_id=job_id)),
        proxy.error_of("submit", request),
    )

    assert (cancel.kind, submit.kind) == ("unavailable", "unavailable")

    await proxy.until_snapshot(lambda snapshot: snapshot.pending is None, seconds=20)
    await slurm.cluster["slurmctld"].start()
    await proxy.until_snapshot(lambda snapshot: snapshot.pending is not None, seconds=30)
    # The outcome of the first submit is unknown, so Slurm is asked before the second one.
    await proxy.call("submit", request, Submitted)
    await proxy.call("submit", request, Submitted)
    (job,) = (await proxy.jobs(alice, name="away")).jobs
    for each in (job.job_id, job_id):
        await proxy.cancel(alice, each)
        await wait_for_events(proxy, f"{each} job.submitted", f"{each} job.cancelled")
