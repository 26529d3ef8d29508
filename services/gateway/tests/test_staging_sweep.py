"""The sweep of stagings: which ones a gateway looks at next, and how soon."""

import asyncio
import time
from typing import Any

from clusterra_contracts.events import Event, JobFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import Stored
from clusterra_gateway.staging.sweep import (
    ARRAY_SECONDS,
    LOOK_SHARE,
    SOON_SECONDS,
    TURNS_OF_PERSON,
    WAITING_SECONDS,
    StagingSweep,
)
from clusterra_lab.machine.process import until
from test_staging_state import staging

REF = ClusterRef(tenant="acme", cluster="main")


class Records:
    """Stagings whose ids begin with their person's letter."""

    async def read(self, _ref: ClusterRef, staging_id: str) -> Stored:
        return Stored(staging("staging_out").model_copy(update={"member": staging_id[0]}), 1)


RECORDS: Any = Records()


def a_sweep() -> StagingSweep:
    nothing: Any = None
    return StagingSweep(nothing, nothing)


def test_a_staging_whose_turn_is_over_goes_on_soon() -> None:
    assert a_sweep()._pause_seconds((REF, "0" * 32), staging("staging_out")) == SOON_SECONDS
    assert a_sweep()._pause_seconds((REF, "0" * 32), staging("staging_out", claimed_by="another")) > SOON_SECONDS
    assert a_sweep()._pause_seconds((REF, "0" * 32), staging("submitting")) > SOON_SECONDS


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


def test_an_array_is_looked_at_once_in_a_while_however_many_of_its_tasks_end() -> None:
    place, other = (REF, "0" * 32), (REF, "1" * 32)
    sweep = a_sweep()
    assert sweep._pause_seconds(place, staging("waiting", job_id="42")) == WAITING_SECONDS
    assert sweep._pause_seconds(other, staging("waiting", job_id="43")) == WAITING_SECONDS
    sweep._due = dict.fromkeys((place, other), time.monotonic() + WAITING_SECONDS)

    sweep.on_event(REF, ended("42_1"))
    first = sweep._due[place]
    sweep.on_event(REF, ended("42_2"))
    sweep.on_event(REF, ended("43"))

    assert sweep._due[place] == first
    assert sweep._due[other] <= time.monotonic()
    assert first - time.monotonic() <= ARRAY_SECONDS
    assert sweep._pause_seconds(place, staging("waiting", job_id="42")) == ARRAY_SECONDS
    assert sweep._pause_seconds(place, staging("waiting", job_id="42")) == WAITING_SECONDS


class SlowReconciler:
    """Takes a while each time, after which the job is waited for."""

    async def reconcile(self, _ref: ClusterRef, _staging_id: str) -> Staging:
        await asyncio.sleep(0.2)
        return staging("waiting", job_id="42")


async def test_an_array_is_looked_at_less_often_where_a_look_takes_long() -> None:
    place = (REF, "0" * 32)
    reconciler: Any = SlowReconciler()
    sweep = StagingSweep(RECORDS, reconciler)

    await sweep._advance(place)
    sweep.on_event(REF, ended("42_1"))
    after_staging_in = sweep._due[place] - time.monotonic()
    await sweep._advance(place)
    await sweep._advance(place)
    sweep.on_event(REF, ended("42_2"))
    after_a_look = sweep._due[place] - time.monotonic()

    assert after_staging_in <= ARRAY_SECONDS
    assert 0.9 * 0.2 / LOOK_SHARE < after_a_look < WAITING_SECONDS


def test_a_look_at_a_job_that_waits_is_routine_until_an_event_tells_its_end() -> None:
    waiting, over, new = ((REF, number * 32) for number in "012")
    sweep = a_sweep()
    sweep._pause_seconds(waiting, staging("waiting", job_id="42"))
    sweep._pause_seconds(over, staging("waiting", job_id="43"))

    sweep.on_event(REF, ended("43"))

    assert [sweep._place(key).routine for key in (waiting, over, new)] == [True, False, False]


def test_copying_outputs_is_no_routine_look() -> None:
    place = (REF, "0" * 32)
    sweep = a_sweep()

    sweep._pause_seconds(place, staging("waiting", job_id="42"))
    waiting = sweep._is_routine(place)
    sweep._pause_seconds(place, staging("staging_out", job_id="42"))

    assert waiting
    assert not sweep._is_routine(place)


async def test_a_staging_is_not_due_during_its_visit_unless_its_job_ends() -> None:
    key, visited = (REF, "0" * 32), list[tuple[bool, bool]]()

    class Reconciler:
        async def reconcile(self, _ref: ClusterRef, _staging_id: str) -> Staging:
            at = time.monotonic()
            during = sweep._due[key] <= at
            sweep.on_event(REF, ended("42"))
            visited.append((during, sweep._due[key] <= time.monotonic()))
            return staging("waiting", job_id="42")

    reconciler: Any = Reconciler()
    sweep = StagingSweep(RECORDS, reconciler)
    sweep._pause_seconds(key, staging("waiting", job_id="42"))

    await sweep._advance(key)

    assert visited == [(False, True)]
    assert sweep._due[key] - time.monotonic() <= SOON_SECONDS


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
    sweep._woken.set()
    await until(lambda: "b" * 32 in reached, seconds=60, what="the staging of another person", every=0.01)
    hers = len(reached) - 1
    go_on.set()
    await until(lambda: len(reached) == 21, seconds=60, what="all stagings", every=0.01)
    running.cancel()

    assert hers <= TURNS_OF_PERSON
