"""The sweep of stagings: which ones a gateway looks at next, and how soon."""

import asyncio
import time
from typing import Any

import pytest
from clusterra_contracts.events import Event, JobFact, event_of
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.sweep import (
    ARRAY_SECONDS,
    AT_A_TIME,
    LOOK_SHARE,
    PER_CLUSTER,
    SOON_SECONDS,
    WAITING_SECONDS,
    StagingSweep,
)
from test_staging_state import staging

REF = ClusterRef(tenant="acme", cluster="main")


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
    assert sweep._chosen([place, other]) == [other]
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
    nothing: Any = None
    reconciler: Any = SlowReconciler()
    sweep = StagingSweep(nothing, reconciler)

    await sweep._advance(place)
    sweep.on_event(REF, ended("42_1"))
    after_staging_in = sweep._due[place] - time.monotonic()
    await sweep._advance(place)
    await sweep._advance(place)
    sweep.on_event(REF, ended("42_2"))
    after_a_look = sweep._due[place] - time.monotonic()

    assert after_staging_in <= ARRAY_SECONDS
    assert 0.9 * 0.2 / LOOK_SHARE < after_a_look < WAITING_SECONDS


@pytest.mark.parametrize("seed", range(5))
def test_routine_looks_at_many_jobs_keep_no_new_and_no_ended_one_waiting(seed: int) -> None:
    sweep = a_sweep()
    many = [(REF, f"{number:032x}") for number in range(1000)]
    for number, place in enumerate(many):
        sweep._pause_seconds(place, staging("waiting", job_id=f"{number + 1}"))
    new, over = (REF, "f" * 32), many[seed]
    sweep.on_event(REF, ended(f"{seed + 1}"))

    chosen = sweep._chosen([*many, new])

    assert len(chosen) == PER_CLUSTER
    assert {new, over} <= set(chosen)
    assert not sweep._left_over


def test_copying_outputs_is_no_routine_look() -> None:
    place = (REF, "0" * 32)
    sweep = a_sweep()

    sweep._pause_seconds(place, staging("waiting", job_id="42"))
    waiting = sweep._is_routine(place)
    sweep._pause_seconds(place, staging("staging_out", job_id="42"))

    assert waiting
    assert not sweep._is_routine(place)


async def test_the_next_round_comes_soon_where_more_is_left_than_routine() -> None:
    nothing: Any = None
    reconciler: Any = SlowReconciler()
    sweep = StagingSweep(nothing, reconciler)
    new = [(REF, f"{number:032x}") for number in range(PER_CLUSTER + 1)]

    for place in sweep._chosen(new):
        await sweep._advance(place)

    assert sweep._woken.is_set()


@pytest.mark.parametrize("seed", range(5))
def test_a_tenant_with_many_stagings_keeps_nobody_waiting(seed: int) -> None:
    sweep = a_sweep()
    many = [
        (ClusterRef(tenant="acme", cluster=f"c{cluster}"), f"{number:032x}")
        for cluster in range(30)
        for number in range(10)
    ]
    few = (ClusterRef(tenant="rival", cluster="main"), f"{seed:032x}")

    chosen = sweep._chosen([*many, few])
    sweep._under_way.update(place for place in chosen if place != few)
    again = sweep._chosen([*many, few])

    assert few in chosen
    assert len(chosen) == AT_A_TIME
    assert again == [few]
