"""The events of runs: one for each change, whoever makes it, and to whom they are shown."""

import asyncio
from collections.abc import Iterable
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.events import Event, JobFact, JobKind, RunFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.identity.access.authentication import COOKIE
from clusterra_gateway.workflows import transitions
from clusterra_gateway.workflows.table import RUNS as RUNS_TABLE
from clusterra_gateway.workflows.workflow import Workflow
from clusterra_gateway.workflows.workflow_records import UNFINISHED, WorkflowRecords
from clusterra_lab.machine.process import until
from clusterra_lab.parts.sse import ServerSentEvent
from clusterra_runtime.nats.events import EventPublisher
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Update
from gateway_world import World
from people_world import cookie_of, replica
from sse_reader import Reader, sse_reader

RUNS = "/v1/clusters/main/runs"
STREAM = "/v1/clusters/main/events/stream"
REF = ClusterRef(tenant="acme", cluster="main")


async def started(browser: aiohttp.ClientSession, *ids: str) -> str:
    steps = [{"step_id": each, "script": "#!/bin/sh\n", "job": {"environment": ["PATH=/usr/bin:/bin"]}} for each in ids]
    async with browser.post(RUNS, json={"run_name": "nightly", "steps": steps}) as answer:
        assert answer.status == 201, await answer.text()
        return str((await answer.json())["run_id"])


def events_of(shown: Iterable[ServerSentEvent], run_id: str) -> list[Event]:
    events = [Event.model_validate_json(each.data) for each in shown]
    return [each for each in events if isinstance(each.data, RunFact) and each.subject == run_id]


async def told(reader: Reader, run_id: str, *kinds: str) -> list[RunFact]:
    """The facts of a run, once there are as many as these kinds, which they must have."""
    await until(
        lambda: len(events_of(reader.events, run_id)) >= len(kinds),
        seconds=90,
        what=f"the event {kinds[-1]}",
        every=0.02,
    )
    facts = [each.data for each in events_of(reader.events, run_id)]
    assert [fact.kind for fact in facts] == list(kinds)
    return [fact for fact in facts if isinstance(fact, RunFact)]


async def end_job(world: World, job_id: str, state: str, kind: JobKind) -> None:
    """Ends a job, once Slurm has it, and tells so as the proxy does."""
    await until(lambda: job_id in world.acme.jobs, seconds=90, what=f"job {job_id}", every=0.02)
    world.acme.set_state(job_id, state)
    job = world.acme.jobs[job_id]
    fact = JobFact(
        kind=kind,
        job_id=job_id,
        name=job.name,
        user=job.user,
        uid=job.uid or 0,
        partition=job.partition,
        state=state,
        submitted_at=job.submitted_at or now(),
    )
    await EventPublisher(world.client, "proxy").publish(world.acme.ref, fact, version=f"{job_id}-{state}", time=now())


@pytest.mark.usefixtures("quick_sweeps")
async def test_each_attempt_of_a_run_has_one_beginning_and_one_end(world: World) -> None:
    """Nobody reads the run: the ends of its jobs are enough."""
    ada = await world.login("ada@acme.example")
    async with sse_reader(ada, STREAM) as reader:
        run_id = await started(ada, "get", "align")
        await told(reader, run_id, "run.started")
        await end_job(world, "1", "COMPLETED", "job.completed")
        await end_job(world, "2", "FAILED", "job.failed")
        *_, failed = await told(reader, run_id, "run.started", "run.failed")
        async with ada.post(f"{RUNS}/{run_id}/resume") as answer:
            assert answer.status == 202
        await told(reader, run_id, "run.started", "run.failed", "run.resumed")
        await end_job(world, "3", "COMPLETED", "job.completed")
        facts = await told(reader, run_id, "run.started", "run.failed", "run.resumed", "run.completed")

    assert (failed.steps, failed.failed_step) == ({"completed": 1, "failed": 1}, "align")
    assert [(fact.steps, fact.failed_step) for fact in facts[2:]] == [({}, ""), ({"completed": 2}, "")]
    assert {(fact.name, fact.user) for fact in facts} == {("nightly", "ada")}
    assert len({event.id for event in events_of(reader.events, run_id)}) == 4


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_cancelled_run_tells_its_end_once_its_jobs_have_ended(world: World) -> None:
    ada = await world.login("ada@acme.example")
    async with sse_reader(ada, STREAM) as reader:
        run_id = await started(ada, "get", "align")
        async with ada.delete(f"{RUNS}/{run_id}") as answer:
            assert answer.status == 202
        await told(reader, run_id, "run.started")
        for job_id in ("1", "2"):
            await end_job(world, job_id, "CANCELLED", "job.cancelled")
        *_, end = await told(reader, run_id, "run.started", "run.cancelled")

    assert (end.steps, end.failed_step) == ({"cancelled": 2}, "")


async def test_gateways_that_see_an_end_at_the_same_time_tell_it_once(world: World) -> None:
    ada = await world.login("ada@acme.example")
    run_id = await started(ada, "get")
    published: list[str] = []

    async def note(subject: str, *_message: object) -> None:
        published.append(subject)

    def ended(workflow: Workflow) -> Workflow:
        return transitions.observed(workflow, {"1": "COMPLETED"}, now())

    gateways = [WorkflowRecords(world.store, Outbox(world.store, note)) for _ in range(6)]
    changed = await asyncio.gather(*(gateway.change(REF, run_id, ended) for gateway in gateways))

    assert [each.workflow.state for each in changed if each is not None] == ["completed"] * 6
    assert published == ["event.acme.main.run.completed"]


async def test_two_gateways_go_on_with_a_run_and_tell_each_change_once(world: World) -> None:
    ada = await world.login("ada@acme.example")
    async with (
        replica(world) as other,
        aiohttp.ClientSession(other, cookies={COOKIE: cookie_of(ada)}) as second,
        sse_reader(ada, STREAM) as reader,
    ):
        run_id = await started(ada, "a", "b")
        await end_job(world, "1", "COMPLETED", "job.completed")
        await end_job(world, "2", "COMPLETED", "job.completed")
        reads = [browser.get(f"{RUNS}/{run_id}") for browser in (ada, second) for _ in range(4)]
        for answer in await asyncio.gather(*reads):
            async with answer:
                assert answer.status == 200, await answer.text()
        await told(reader, run_id, "run.started", "run.completed")
        # All that was published before this event has been read when it arrives.
        last = await started(ada, "c")
        await told(reader, last, "run.started")
        await told(reader, run_id, "run.started", "run.completed")


async def test_another_person_does_not_see_the_events_of_a_run(world: World) -> None:
    ada, bob, boss = [await world.login(f"{name}@acme.example") for name in ("ada", "bob", "boss")]
    async with sse_reader(bob, STREAM) as his, sse_reader(boss, STREAM) as all_events:
        hers_id, his_id = await started(ada, "get"), await started(bob, "get")
        await told(his, his_id, "run.started")
        await told(all_events, his_id, "run.started")

    assert len(events_of(all_events.events, hers_id)) == 1
    assert not events_of(his.events, hers_id)
    assert all(hers_id not in event.data for event in his.events)


async def test_an_event_that_a_dead_gateway_left_behind_is_sent(world: World) -> None:
    ada = await world.login("ada@acme.example")

    async def away(*_message: object) -> None:
        raise ConnectionError("NATS is away")

    died = WorkflowRecords(world.store, Outbox(world.store, away, clock=lambda: now().timestamp() - 60))
    async with sse_reader(ada, STREAM) as reader:
        run_id = await started(ada, "get")
        await died.change(REF, run_id, lambda workflow: transitions.observed(workflow, {"1": "FAILED"}, now()))
        await told(reader, run_id, "run.started", "run.failed")


async def test_a_run_whose_event_is_not_sent_is_not_forgotten_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await world.login("ada@acme.example")
    run_id = await started(ada, "get")
    monkeypatch.setattr("clusterra_gateway.workflows.workflow_records.KEEP_SECONDS", 0)

    async def away(*_message: object) -> None:
        raise ConnectionError("NATS is away")

    records = WorkflowRecords(world.store, Outbox(world.store, away))
    changed: Any = await records.change(
        REF, run_id, lambda workflow: transitions.observed(workflow, {"1": "FAILED"}, now())
    )
    assert changed == await records.read(REF, run_id)
    assert await records.remove(REF, changed)

    left = await records.read(REF, run_id)
    assert left is not None
    assert left.unsent


async def test_a_run_that_the_release_before_has_ended_is_not_visited_for_ever(world: World) -> None:
    ada = await world.login("ada@acme.example")
    run_id = await started(ada, "one")
    await end_job(world, "1", "COMPLETED", "job.completed")

    async def unsent(*_message: object) -> None:
        """The gateway of the test sends what there is to send."""

    records = WorkflowRecords(world.store, Outbox(world.store, unsent))

    async def over() -> bool:
        stored = await records.read(REF, run_id)
        return stored is not None and stored.workflow.over

    async def unmarked() -> bool:
        return (REF, run_id) not in await records.unfinished()

    await until(over, seconds=90, what="the end of the run", every=0.02)
    # As the release before leaves it: the record alone tells the end.
    await world.store.write(Update(RUNS_TABLE, Key(UNFINISHED, f"{REF.key}#{run_id}"), set={}))

    await until(unmarked, seconds=90, what="a run without a mark", every=0.05)
