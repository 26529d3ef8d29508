"""The sweep of stagings: which ones a gateway goes on with next, and how soon."""

import asyncio
import contextlib
import time
from typing import Any

from clusterra_contracts.events import Event, JobFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.bus.job_end_wakeups import ARRAY_SECONDS, SOON_SECONDS, WAITING_SECONDS
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import Stored
from clusterra_gateway.staging.sweep import (
    INTERVAL_SECONDS,
    MAX_VISIT_SHARE,
    TURNS_OF_PERSON,
    StagingSweep,
    _pause_seconds,
)
from clusterra_lab.machine.process import until
from test_staging_state import staging

REF = ClusterRef(tenant="acme", cluster="main")


class Records:
    """Stagings whose ids begin with their person's letter."""

    async def read(self, _ref: ClusterRef, staging_id: str) -> Stored:
        return Stored(staging("staging_out").model_copy(update={"member": staging_id[0]}), 1)


RECORDS: Any = Records()


class Answers:
    """A reconciler whose answers are given, the last one for ever."""

    def __init__(self, *answers: Staging | None, seconds: float = 0.0) -> None:
        self._answers = list(answers)
        self._seconds = seconds

    async def reconcile(self, _ref: ClusterRef, _staging_id: str) -> Staging | None:
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def a_sweep(*answers: Staging | None, seconds: float = 0.0) -> StagingSweep:
    reconciler: Any = Answers(*answers, seconds=seconds)
    return StagingSweep(RECORDS, reconciler)


def due_in(sweep: StagingSweep, key: tuple[ClusterRef, str]) -> float:
    """In how many seconds a staging is visited next."""
    return sweep._wakeups._due[key] - time.monotonic()


def test_a_staging_whose_turn_is_over_goes_on_soon() -> None:
    assert _pause_seconds(staging("staging_out")) == SOON_SECONDS
    assert _pause_seconds(staging("staging_out", claimed_by="another")) > SOON_SECONDS
    assert _pause_seconds(staging("submitting")) > SOON_SECONDS


def ended(job_id: str) -> Event:
    fact = JobFact(
        kind="job.completed",
        job_id=job_id,
        name="x",
        user="ada",
        uid=20001,
        partition="main",
        state="COMPLETED",
        submitted_at=now(),
    )
    return event_of("proxy", REF, fact, version=job_id, time=now())


async def test_a_submit_and_the_end_of_a_job_wake_the_sweep_and_the_end_of_a_task_does_not() -> None:
    key, woken = (REF, "0" * 32), list[bool]()
    sweep = a_sweep(staging("waiting", job_id="42"))
    await sweep._advance(key)
    submitted = ended("44").data.model_copy(update={"kind": "job.submitted"})

    for event in (ended("43"), ended("42_1"), ended("42"), event_of("proxy", REF, submitted, version="1", time=now())):
        sweep._wakeups.woken.clear()
        sweep.on_event(REF, event)
        woken.append(sweep._wakeups.woken.is_set())

    assert woken == [False, False, True, True]


async def test_an_array_is_visited_less_often_where_a_visit_takes_long() -> None:
    key = (REF, "0" * 32)
    sweep = a_sweep(staging("waiting", job_id="42"), seconds=0.2)

    await sweep._advance(key)
    sweep.on_event(REF, ended("42_1"))
    after_staging_in = due_in(sweep, key)
    await sweep._advance(key)
    await sweep._advance(key)
    sweep.on_event(REF, ended("42_2"))
    after_a_visit = due_in(sweep, key)

    assert after_staging_in <= ARRAY_SECONDS
    assert 0.9 * 0.2 / MAX_VISIT_SHARE < after_a_visit < WAITING_SECONDS


async def test_copying_outputs_is_no_routine_visit() -> None:
    key = (REF, "0" * 32)
    sweep = a_sweep(staging("waiting", job_id="42"), staging("staging_out", job_id="42"))

    await sweep._advance(key)
    waiting = sweep._wakeups.place(key).routine
    await sweep._advance(key)

    assert waiting
    assert not sweep._wakeups.place(key).routine


async def test_a_fault_is_repeated_seldom_and_a_staging_that_another_has_soon() -> None:
    class Faulty:
        async def reconcile(self, *_: object) -> Staging:
            raise ZeroDivisionError

    key, reconciler = (REF, "0" * 32), Faulty()
    faulty, claimed = StagingSweep(RECORDS, reconciler), a_sweep(None)  # type: ignore[arg-type]

    with contextlib.suppress(ZeroDivisionError):
        await faulty._advance(key)
    await claimed._advance(key)

    assert SOON_SECONDS < due_in(claimed, key) <= INTERVAL_SECONDS
    assert INTERVAL_SECONDS < due_in(faulty, key) <= WAITING_SECONDS


async def test_a_staging_is_not_due_during_its_visit_unless_its_job_ends() -> None:
    key, visited = (REF, "0" * 32), list[tuple[bool, bool]]()

    class Reconciler:
        async def reconcile(self, _ref: ClusterRef, _staging_id: str) -> Staging:
            during = due_in(sweep, key) <= 0
            sweep.on_event(REF, ended("42"))
            visited.append((during, due_in(sweep, key) <= 0))
            return staging("waiting", job_id="42")

    reconciler: Any = Reconciler()
    sweep = StagingSweep(RECORDS, reconciler)
    sweep._wakeups.wait(key, ("42",))

    await sweep._advance(key)

    assert visited == [(False, True)]
    assert due_in(sweep, key) <= SOON_SECONDS


async def test_the_stagings_of_one_person_leave_room_for_those_of_others() -> None:
    """Each of hers takes long, and there are always more of them."""
    reached, go_on = list[str](), asyncio.Event()

    class Reconciler:
        async def reconcile(self, _ref: ClusterRef, staging_id: str) -> Staging:
            reached.append(staging_id)
            if staging_id.startswith("a"):
                await go_on.wait()
            return staging("done")

    class Unfinished(Records):
        async def unfinished(self) -> tuple[tuple[ClusterRef, str], ...]:
            ids = [f"a{number:031}" for number in range(20)] + ["b" * 32]
            return tuple((REF, each) for each in ids if each not in reached)

    records: Any = Unfinished()
    reconciler: Any = Reconciler()
    sweep = StagingSweep(records, reconciler)
    running = asyncio.create_task(sweep.sweeper().run())
    sweep._wakeups.woken.set()
    await until(lambda: "b" * 32 in reached, seconds=60, what="the staging of another person", every=0.01)
    hers = len(reached) - 1
    go_on.set()
    await until(lambda: len(reached) == 21, seconds=60, what="all stagings", every=0.01)
    running.cancel()

    assert hers <= TURNS_OF_PERSON
