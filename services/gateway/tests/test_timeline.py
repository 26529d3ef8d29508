"""The timeline of a job: its stages from Slurm's record and the archived events, for those who may see the job."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from clusterra_contracts.events import (
    Event,
    JobFact,
    JobKind,
    MachineSize,
    NodeFact,
    ScaleFact,
    ShapeChange,
    WorkerFact,
    event_of,
)
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.slurm import Job
from clusterra_gateway.jobs.stages import (
    MAX_DECISIONS,
    MAX_WORKERS,
    JobHistory,
    Stage,
    decision_stages,
    in_order,
    worker_stages,
)
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st

REF = ClusterRef(tenant="acme", cluster="main")
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def of_job(kind: JobKind, when: datetime, job_id: str = "7", *nodes: str, **more: Any) -> Event:
    ended = kind not in ("job.submitted", "job.running", "job.requeued")
    fact = JobFact(
        kind=kind,
        job_id=job_id,
        name="x",
        user="ada",
        uid=more.pop("uid", 20001),
        partition="main",
        state=more.pop("state", "COMPLETED" if ended else "RUNNING"),
        nodes=nodes,
        submitted_at=BEGIN,
        **more,
    )
    return event_of("proxy", REF, fact, version=str(when.timestamp()), time=when)


def decided(when: datetime, *job_ids: str, generation: int = 3) -> Event:
    change = ShapeChange(
        shape="small", replicas_before=0, replicas_after=1, reason="1 more for pending job 7", job_ids=job_ids
    )
    fact = ScaleFact(generation=generation, fence=1, snapshot_generation=1, changes=(change,))
    return event_of("scaler", REF, fact, version=str(when.timestamp()), time=when)


def started(when: datetime, worker: str = "small-1") -> Event:
    fact = WorkerFact(kind="worker.started", worker=worker, shape="small")
    return event_of("edge-agent", REF, fact, version=str(when.timestamp()), time=when)


def registered(when: datetime, worker: str = "small-1") -> Event:
    fact = NodeFact(kind="node.registered", node=worker, size=MachineSize(cpus=2, memory_mib=4000))
    return event_of("proxy", REF, fact, version=str(when.timestamp()), time=when)


def timeline(events: Iterable[Event], job: Job | None = None, *, complete: bool = True) -> tuple[Stage, ...]:
    given_events = list(events)
    history = JobHistory.of("7", job, given_events)
    workers = [each for run, node in history.workers() for each in worker_stages(run, node, given_events)]
    return in_order([*history.stages(), *decision_stages(history, given_events, complete=complete), *workers])


def told(stages: Iterable[Stage]) -> list[tuple[str, float | None]]:
    return [(each.stage, None if each.at is None else (each.at - BEGIN).total_seconds()) for each in stages]


def slurm_job(**fields: Any) -> Job:
    known = {"job_id": "7", "name": "x", "user": "ada", "uid": 20001, "partition": "main", "submitted_at": BEGIN}
    return Job.model_validate({**known, **fields})


WHOLE = (
    of_job("job.submitted", at(0)),
    decided(at(0.2), "7", "9"),
    started(at(0.3)),
    registered(at(41)),
    # Slurm's whole seconds: it began after the registration, which is told more exactly.
    of_job("job.running", at(41), "7", "small-1"),
    of_job("job.failed", at(60), "7", "small-1", state="FAILED", exit_code=3, reason="NonZeroExitCode"),
)


@given(st.permutations(WHOLE))
def test_the_way_of_a_job_on_a_worker_that_was_bought_for_it(events: list[Event]) -> None:
    stages = timeline(events)

    assert told(stages) == [
        ("submitted", 0),
        ("decided", 0.2),
        ("worker_started", 0.3),
        ("registered", 41),
        ("running", 41),
        ("ended", 60),
    ]
    assert [each.seconds_since_previous for each in stages] == [None, 0.2, 0.1, 40.7, 0, 19]
    _, decision, worker, node, runs, end = stages
    assert (decision.shape, decision.decision_generation) == ("small", 3)
    assert (decision.detail, decision.reason) == ("small from 0 to 1 workers", "1 more for pending job 7")
    assert (worker.worker, worker.shape, runs.worker) == ("small-1", "small", "small-1")
    assert node.detail == "2 CPUs, 4000 MiB"
    assert (end.detail, end.reason) == ("FAILED with the exit code 3", "NonZeroExitCode")


def test_a_worker_that_was_there_started_before_the_submit() -> None:
    stages = timeline(
        [
            started(at(-500)),
            registered(at(-460)),
            of_job("job.submitted", at(0)),
            of_job("job.running", at(1), "7", "small-1"),
        ]
    )

    assert told(stages) == [
        ("worker_started", -500),
        ("registered", -460),
        ("submitted", 0),
        ("decided", None),
        ("running", 1),
    ]
    assert stages[3].detail == "no decision named it: it ran on workers that were there or had been ordered"
    assert [each.seconds_since_previous for each in stages] == [None, 40, 460, None, 1]


def test_what_is_not_known_has_no_time() -> None:
    stages = timeline([], slurm_job(state="RUNNING", started_at=at(9), nodes=("small-1",)), complete=False)

    assert told(stages) == [
        ("submitted", 0),
        ("decided", None),
        ("worker_started", None),
        ("registered", None),
        ("running", 9),
    ]
    assert stages[1].detail == "not all decisions since its submit were read"
    assert stages[-1].seconds_since_previous == 9


def test_a_name_that_another_worker_had_is_not_mistaken_for_it() -> None:
    stages = timeline(
        [
            of_job("job.submitted", at(0)),
            started(at(-900)),
            registered(at(-800)),
            started(at(2)),
            registered(at(30)),
            registered(at(35)),
            of_job("job.running", at(40), "7", "small-1"),
            started(at(90)),
        ]
    )

    assert [each for each in told(stages) if each[0] in ("worker_started", "registered")] == [
        ("worker_started", 2),
        ("registered", 30),
    ]


def test_a_job_that_was_requeued_has_several_runs() -> None:
    stages = timeline(
        [
            of_job("job.submitted", at(0)),
            of_job("job.running", at(5), "7", "small-1", restarts=0),
            of_job("job.requeued", at(20), restarts=1),
            decided(at(21), "7"),
            started(at(22), "small-2"),
            of_job("job.running", at(50), "7", "small-2", restarts=1),
        ],
        slurm_job(state="RUNNING", submitted_at=at(20), started_at=at(50), nodes=("small-2",), restarts=1),
    )

    assert [each.stage for each in stages if each.at is not None] == [
        *("submitted", "running", "requeued", "decided", "worker_started", "running"),
    ]


@pytest.mark.parametrize(
    ("events", "job", "submitted"),
    [
        ((), slurm_job(state="PENDING"), 0.0),
        # Slurm counts from the requeue.
        ((), slurm_job(state="PENDING", submitted_at=at(20), restarts=1), None),
        ((of_job("job.submitted", at(0)),), slurm_job(state="PENDING", submitted_at=at(20), restarts=1), 0.0),
    ],
)
def test_the_submit_of_a_job_that_waits(events: tuple[Event, ...], job: Job, submitted: float | None) -> None:
    stages = timeline(events, job)

    assert told(stages) == [("submitted", submitted), ("decided", None)]
    assert stages[1].detail == "no decision has bought workers for it yet"


def test_a_number_that_another_job_had_before_is_not_mistaken_for_it() -> None:
    stages = timeline([of_job("job.submitted", at(-99)), of_job("job.completed", at(-50)), *WHOLE])

    assert told(stages)[0] == ("submitted", 0)
    assert [each.stage for each in stages].count("ended") == 1


def test_a_task_has_the_submit_and_the_decisions_of_its_array() -> None:
    events = [
        of_job("job.submitted", at(0), "42"),
        decided(at(1), "42"),
        of_job("job.running", at(9), "42_3", "small-1"),
    ]

    history = JobHistory.of("42_3", None, events)
    stages = in_order([*history.stages(), *decision_stages(history, events, complete=True)])

    assert told(stages) == [("submitted", 0), ("decided", 1), ("running", 9)]
    assert history.known
    assert not JobHistory.of("42_4", None, events).known


def test_of_many_decisions_and_workers_some_are_told() -> None:
    nodes = [f"small-{number}" for number in range(MAX_WORKERS + 5)]
    history = JobHistory.of("7", slurm_job(state="RUNNING", started_at=at(99), nodes=tuple(nodes)), [])

    decisions = decision_stages(history, [decided(at(n / 10), "7") for n in range(MAX_DECISIONS + 5)], complete=True)

    assert len(history.workers()) == MAX_WORKERS
    assert [each.moment for each in decisions] == [at(n / 10) for n in range(MAX_DECISIONS)]


def test_the_decisions_of_a_job_that_never_ran_are_sought_until_its_end() -> None:
    cancelled = slurm_job(state="CANCELLED", ended_at=at(30))

    assert JobHistory.of("7", cancelled, []).decided_before(at(9999)) == at(31)
    assert JobHistory.of("7", slurm_job(state="PENDING"), []).decided_before(at(9999)) == at(9999)


async def read(world: World, email: str, job_id: str = "7") -> tuple[int, Any]:
    browser = await world.login(email)
    async with browser.get(f"/v1/clusters/main/jobs/{job_id}/timeline") as answer:
        return answer.status, await answer.json()


async def test_the_owner_reads_the_timeline_and_others_find_no_job(world: World) -> None:
    job = world.acme.add_job("7", state="RUNNING")
    world.acme.jobs["7"] = job.model_copy(update={"started_at": job.submitted_at, "nodes": ("small-1",)})
    world.acme.events.archived = [decided(job.submitted_at, "7"), decided(job.submitted_at, "8", generation=4)]

    status, found = await read(world, "ada@acme.example")

    assert status == 200
    assert found["complete"] is True
    assert [each["stage"] for each in found["stages"]] == [
        *("submitted", "decided", "worker_started", "registered", "running"),
    ]
    assert [each["decision_generation"] for each in found["stages"]] == [None, 3, None, None, None]
    assert (await read(world, "bob@acme.example"))[0] == 404
    assert (await read(world, "boss@acme.example"))[1]["stages"] == found["stages"]
    assert (await read(world, "ada@acme.example", "8"))[0] == 404
    asked = [each for each in world.acme.events.histories if each.kinds == ("scale.decided",)]
    assert {each.after for each in asked} == {job.submitted_at}


async def test_the_timeline_of_a_job_that_slurm_has_forgotten_is_in_the_archive(world: World) -> None:
    at_now = now()
    world.acme.events.archived = [
        of_job("job.submitted", at_now - timedelta(seconds=9)),
        of_job("job.completed", at_now, exit_code=0),
    ]

    status, found = await read(world, "ada@acme.example")

    assert (status, [each["stage"] for each in found["stages"]]) == (200, ["submitted", "decided", "ended"])
    assert (await read(world, "bob@acme.example"))[0] == 404


async def test_a_node_that_is_none_of_our_workers_has_its_name(world: World) -> None:
    job = world.acme.add_job("7", state="RUNNING")
    world.acme.jobs["7"] = job.model_copy(update={"started_at": job.submitted_at, "nodes": ("Node_01.site",)})
    world.acme.events.history_fails_after = 2

    status, found = await read(world, "ada@acme.example")

    assert (status, found["complete"]) == (200, False)
    assert [each["worker"] for each in found["stages"]] == [None, None, *["Node_01.site"] * 3]


async def test_without_the_archive_the_timeline_is_what_slurm_knows(world: World) -> None:
    world.acme.add_job("7", state="PENDING")
    world.acme.events.history_fails_after = 0

    status, found = await read(world, "ada@acme.example")

    assert (status, found["complete"]) == (200, False)
    assert [(each["stage"], each["at"] is None) for each in found["stages"]] == [
        *(("submitted", False), ("decided", True)),
    ]


@pytest.mark.parametrize(("archived", "every", "pages"), [(1_000, 9, [None, "100"]), (190, 3, [None])])
async def test_no_more_decisions_are_read_once_all_that_are_told_are_known(
    world: World, archived: int, every: int, pages: list[str | None]
) -> None:
    job = world.acme.add_job("7", state="PENDING")
    world.acme.events.archived = [
        decided(job.submitted_at + timedelta(milliseconds=number), "8" if number % every else "7")
        for number in range(archived)
    ]

    status, found = await read(world, "ada@acme.example")

    told_of = [each for each in found["stages"] if each["stage"] == "decided"]
    asked = [each for each in world.acme.events.histories if each.kinds == ("scale.decided",)]
    assert (status, len(told_of)) == (200, MAX_DECISIONS)
    assert [each.cursor for each in asked] == pages
    # The stand-in answers decisions also where the job's own events are asked for, of which 200 are read.
    assert found["complete"] == (archived < 200)
