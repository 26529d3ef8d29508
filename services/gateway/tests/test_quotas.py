"""Quotas: reserved with the claim of the key, never beyond the ceiling, released by what a job really cost."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from cluster_stand_in import ClusterStandIn
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.costs import JobCost
from clusterra_contracts.rpc.slurm_jobs import Update as JobUpdate
from clusterra_contracts.rpc.slurm_limits import BlockSubmits
from clusterra_gateway.accounts.keyspace import ACCOUNTS, reservation_key, reservations_partition
from clusterra_gateway.bus.requests import LedgerRequests, SlurmRequests
from clusterra_gateway.money.quotas.jobs import task_count
from clusterra_gateway.money.quotas.records import QuotaScope, Reservation, month_of
from clusterra_gateway.money.quotas.reservations import Reservations
from clusterra_gateway.money.quotas.sweep import QuotaSweep
from clusterra_lab.machine.process import until
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.store import Put, StoreUnavailable, Update
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st
from proxy_stand_in import NotedBlocks

SUBMIT = "/v1/clusters/main/jobs/submit"
BODY = {"script": "#!/bin/sh\n", "job": {"environment": ["PATH=/bin"]}}
HOUR = 3600.0
# The stand-in makes an array of ten tasks with one CPU each: half of a compute-xs of the test's catalogue for each.
COST = "0.500000"


async def set_quota(boss: aiohttp.ClientSession, limit: str, path: str = "user/ada", **more: object) -> dict[str, Any]:
    async with boss.put(f"/v1/quotas/{path}", json={"limit": limit, "mode": "block", **more}) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def quotas(session: aiohttp.ClientSession) -> list[dict[str, Any]]:
    async with session.get("/v1/quotas") as answer:
        found: list[dict[str, Any]] = (await answer.json())["quotas"]
        return found


async def submit(session: aiohttp.ClientSession, key: str | None = None) -> tuple[int, dict[str, Any]]:
    async with session.post(SUBMIT, json=BODY, headers={"Idempotency-Key": key} if key else {}) as answer:
        return answer.status, await answer.json()


def statuses(answers: Iterable[tuple[int, object]]) -> list[int]:
    return sorted(status for status, _ in answers)


@pytest.mark.parametrize("with_keys", [True, False])
async def test_of_fifty_submits_at_once_a_quota_for_ten_accepts_exactly_ten(world: World, with_keys: bool) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "5.00")

    answers = await asyncio.gather(*(submit(ada, f"key-000{n:02d}" if with_keys else None) for n in range(50)))

    assert statuses(answers) == [201] * 10 + [403] * 40
    assert len(world.acme.submits) == 10
    refused = next(answer for status, answer in answers if status == 403)
    assert refused["type"] == "/v1/problems/quota-exceeded"
    assert COST in refused["detail"]
    assert (await quotas(ada))[0]["left"]["amount"] == "0.000000"


async def test_the_answer_says_what_is_left_and_a_repetition_reserves_nothing(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "2.00")

    first = await submit(ada, "key-00001")
    again = await submit(ada, "key-00001")

    assert first[1]["quotas"] == [
        {
            "kind": "user",
            "name": "ada",
            "mode": "block",
            "limit": {"amount": "2.000000", "currency": "USD"},
            "left": {"amount": "1.500000", "currency": "USD"},
        }
    ]
    assert (again[1]["repeated"], again[1]["quotas"]) == (True, first[1]["quotas"])


@pytest.mark.parametrize("key", ["key-00001", None])
async def test_a_submit_that_slurm_refuses_keeps_nothing_reserved(world: World, key: str | None) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    await set_quota(boss, "0.50")
    world.acme.time_limit_seconds = HOUR
    world.acme.refuse_submits = "rejected"

    refused = await submit(ada, key)
    world.acme.refuse_submits = None
    accepted = await submit(ada, key)

    assert (refused[0], accepted[0]) == (422, 201)


async def test_beyond_a_limit_that_warns_jobs_are_accepted_with_a_warning(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "0.40", mode="warn")

    status, answer = await submit(ada)

    assert status == 201
    assert any("passed by 0.100000" in warning for warning in answer["warnings"])


async def test_the_buffer_is_beyond_the_limit_and_of_several_quotas_each_must_fit(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "0.90", buffer_percent=20)
    await set_quota(boss, "0.50", path="tenant/acme")

    first, second = await submit(ada), await submit(ada)
    await set_quota(boss, "9.00", path="tenant/acme")
    third, fourth = await submit(ada), await submit(ada)

    assert [first[0], second[0], third[0], fourth[0]] == [201, 403, 201, 403]


async def test_a_job_without_a_time_limit_is_refused_where_a_quota_blocks(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    await set_quota(boss, "5.00")

    status, answer = await submit(ada)

    assert status == 400
    assert "time limit" in answer["hint"]
    assert world.acme.submits == []


@pytest.mark.usefixtures("quick_sweeps")
async def test_what_a_job_really_cost_counts_after_its_end(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "5.00")
    job_id = (await submit(ada))[1]["job_id"]
    world.acme.jobs[job_id] = world.acme.jobs[job_id].model_copy(
        update={"state": "COMPLETED", "started_at": now(), "ended_at": now()}
    )
    world.acme.events.job_costs[job_id] = JobCost(runs=1, micro_usd=70_000, as_of=now())

    async def settled() -> bool:
        return str((await quotas(ada))[0]["used"]["amount"]) == "0.070000"

    await until(settled, seconds=90, what="the real cost")


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_job_that_came_past_the_gateway_is_cancelled_by_name_beyond_the_quota(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "1.00")
    async with ada.get("/v1/users/me") as answer:
        uid = (await answer.json())["uid"]
    for number in range(101, 131):
        job = world.acme.add_job(str(number), state="PENDING", uid=uid)
        world.acme.jobs[str(number)] = job.model_copy(update={"time_limit_seconds": HOUR})

    await until(lambda: len(set(world.acme.cancelled)) >= 10, seconds=90, what="cancels")
    await until(lambda: len(set(world.acme.cancelled)) == 10, seconds=90, what="ten cancels")

    # Twenty of them, with one CPU for an hour each, fit.
    assert {viewer.user.name for viewer in world.acme.cancellers} == {"clusterra-quota"}
    assert (await quotas(ada))[0]["left"]["amount"] == "0.000000"


@pytest.mark.usefixtures("quick_sweeps")
async def test_the_quota_of_the_account_that_slurm_chose_counts_a_submit_which_names_none(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "5.00", path="tenant/acme")
    await set_quota(boss, "0.75", path="account/physics")
    first, second = [(await submit(ada))[1]["job_id"] for _ in range(2)]
    for job_id in (first, second):
        shown = {"account": "physics", "time_limit_seconds": HOUR, "array_tasks": "0-9"}
        world.acme.jobs[job_id] = world.acme.jobs[job_id].model_copy(update=shown)

    await until(lambda: bool(world.acme.cancelled), seconds=90, what="the cancel of the job that does not fit")
    (kept,) = {first, second} - set(world.acme.cancelled)
    counted = {each["name"]: each["used"]["amount"] for each in await quotas(boss)}["physics"]
    world.acme.jobs[kept] = world.acme.jobs[kept].model_copy(update={"state": "COMPLETED", "ended_at": now()})
    world.acme.events.job_costs[kept] = JobCost(runs=1, open_runs=0, micro_usd=123_456, as_of=now())

    async def settled() -> bool:
        used = {each["name"]: each["used"]["amount"] for each in await quotas(boss)}
        return used == {"acme": "0.123456", "physics": "0.123456"}

    assert (len(world.acme.cancelled), counted) == (1, COST)
    world.acme.events.job_costs.update(
        {each: JobCost(runs=0, open_runs=0, micro_usd=0, as_of=now()) for each in world.acme.cancelled}
    )
    for each in world.acme.cancelled:
        world.acme.jobs[each] = world.acme.jobs[each].model_copy(update={"ended_at": now()})
    await until(settled, seconds=90, what="what the job really cost")


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_lower_quota_that_kills_cancels_the_newest_jobs(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "5.00")
    jobs = [(await submit(ada))[1]["job_id"] for _ in range(4)]

    await set_quota(boss, "1.00", mode="block_and_kill")

    await until(lambda: len(set(world.acme.cancelled)) >= 2, seconds=90, what="two cancels")
    assert set(world.acme.cancelled) == set(jobs[2:])


async def test_each_step_of_a_run_reserves_and_one_that_does_not_fit_is_rejected(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "1.00")
    steps = [{"step_id": name, **BODY, "depends_on": []} for name in ("a", "b", "c")]

    async with ada.post("/v1/clusters/main/runs", json={"run_name": "nightly", "steps": steps}) as answer:
        run = await answer.json()

    assert [step["state"] for step in run["steps"]] == ["submitted", "submitted", "rejected"]
    assert "0.000000 USD are left of the quota" in run["steps"][2]["reason"]
    assert len(world.acme.submits) == 2
    assert (await quotas(ada))[0]["left"]["amount"] == "0.000000"


async def test_a_submit_without_a_key_and_with_an_unknown_outcome_keeps_its_reservation(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    await set_quota(boss, "0.50")
    world.acme.time_limit_seconds = HOUR
    world.acme.lose_replies = 1

    status, answer = await submit(ada)

    assert (status, answer["type"]) == (504, "/v1/problems/outcome-unknown")
    assert (await quotas(ada))[0]["left"]["amount"] == "0.000000"


@pytest.mark.usefixtures("quick_sweeps")
@pytest.mark.parametrize("with_key", [True, False])
async def test_a_job_whose_reservation_lost_its_booking_gets_it_again_and_runs_on(
    world: World, monkeypatch: pytest.MonkeyPatch, with_key: bool
) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, COST)
    reservations, write = reservations_partition(world.acme.ref), world.store.write

    async def away(wanted: Put | Update) -> Item:
        if wanted.key.pk == reservations:
            raise StoreUnavailable("away")
        return await write(wanted)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(world.store, "write", away)
        status, job = await submit(ada, "key-00000001" if with_key else None)
    (item,) = (await world.store.query(ACCOUNTS, reservations)).items
    before = now() - timedelta(minutes=2)
    stored = Reservation.of(item).model_copy(update={"made_at": before}).attributes()
    await world.store.write(Update(ACCOUNTS, item.key, set={"made_at": stored["made_at"]}))
    shown = {"submitted_at": before, "time_limit_seconds": HOUR, "array_tasks": "0-9"}
    world.acme.jobs[job["job_id"]] = world.acme.jobs[job["job_id"]].model_copy(update=shown)

    async def booked() -> bool:
        found = (await world.store.query(ACCOUNTS, reservations)).items
        return [each.attributes["job_id"] for each in found] == [job["job_id"]]

    await until(lambda: booked() if not world.acme.cancelled else True, seconds=90, what="the booking")

    assert (status, world.acme.cancelled) == (201, [])
    assert (await quotas(ada))[0]["used"]["amount"] == COST


@pytest.mark.usefixtures("quick_sweeps")
async def test_what_was_reserved_on_one_cluster_is_settled_while_another_has_nothing(world: World) -> None:
    ref = ClusterRef(tenant="acme", cluster="second")
    await ClusterStandIn(ref).serve(world.client)
    await world.add_silent_cluster(ref.cluster)
    lost = Reservation(
        id="lost",
        tenant=ref.tenant,
        cluster=ref.cluster,
        month=month_of(now()),
        scopes=(QuotaScope(kind="user", name="ada"),),
        micro_usd=500_000,
        user="ada",
        made_at=now() - timedelta(hours=1),
    )
    await world.store.write(Put(ACCOUNTS, reservation_key(ref, lost.id), lost.attributes(), Absent()))

    async def settled() -> bool:
        return await world.store.get(ACCOUNTS, reservation_key(ref, lost.id)) is None

    await until(settled, seconds=90, what="the release of a submit without a job")


async def test_slurm_is_told_whose_quota_is_used_up_and_nothing_again_and_again(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "0.50")
    await set_quota(boss, "9.00", path="account/physics")
    await set_quota(boss, "0.10", path="tenant/acme", mode="warn")
    slurm = NotedBlocks(world.client)
    sweep = QuotaSweep(Reservations(world.store), slurm, LedgerRequests(world.client), world.registry)
    ref = world.acme.ref
    enforced = world.registry.clusters[ref].model_copy(update={"accounting_enforced": True})

    await sweep.sweep(ref, enforced)
    await submit(ada)
    for _ in range(3):
        await sweep.sweep(ref, enforced)
    await set_quota(boss, "0.60")
    await sweep.sweep(ref, enforced)

    assert slurm.blocks == [BlockSubmits(), BlockSubmits(users=("ada",)), BlockSubmits()]


@pytest.mark.usefixtures("quick_sweeps")
async def test_the_components_of_a_job_are_reserved_and_settled_in_sum(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "0.60")
    body = {"script": "#!/bin/sh\n", "jobs": [BODY["job"], BODY["job"]]}

    async with ada.post(SUBMIT, json=body) as answer:
        submitted = await answer.json()
    async with ada.post(SUBMIT, json=body) as answer:
        refused = answer.status
    reserved = (await quotas(ada))[0]["used"]["amount"]
    for job_id in ("1", "2"):
        ended = {"state": "COMPLETED", "started_at": now(), "ended_at": now()}
        world.acme.jobs[job_id] = world.acme.jobs[job_id].model_copy(update=ended)
        world.acme.events.job_costs[job_id] = JobCost(runs=1, micro_usd=70_000, as_of=now())

    async def settled() -> bool:
        return str((await quotas(ada))[0]["used"]["amount"]) == "0.140000"

    await until(settled, seconds=90, what="the real costs of both components")
    # Ten tasks with one CPU, and one component with both CPUs of a worker.
    assert (submitted["job_id"], reserved, refused) == ("1", "0.600000", 403)
    assert world.acme.cancelled == []


async def test_a_change_that_makes_a_job_dearer_needs_room_in_the_quota(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "1.00")
    job_id = (await submit(ada))[1]["job_id"]
    world.acme.jobs[job_id] = world.acme.jobs[job_id].model_copy(
        update={"time_limit_seconds": HOUR, "array_tasks": "0-9"}
    )
    path = f"/v1/clusters/main/jobs/{job_id}"

    async with ada.patch(path, json={"time_limit": 121}) as answer:
        refused = answer.status, await answer.json()
    async with ada.patch(path, json={"time_limit": 90}) as answer:
        accepted = answer.status
    used = (await quotas(ada))[0]["used"]["amount"]
    world.acme.change_error = "rejected"
    async with ada.patch(path, json={"time_limit": 120}) as answer:
        failed = answer.status

    assert (refused[0], refused[1]["type"]) == (403, "/v1/problems/quota-exceeded")
    assert "0.508334 USD more" in refused[1]["detail"]
    assert [each.change.changes.time_limit for each in world.acme.changes if isinstance(each.change, JobUpdate)] == [90]
    assert (accepted, used, failed) == (204, "0.750000", 422)
    assert (await quotas(ada))[0]["used"]["amount"] == "0.750000"


async def test_a_job_that_is_made_cheaper_and_dear_again_reserves_no_more_than_it_costs(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "1.00")
    job_id = (await submit(ada))[1]["job_id"]
    shown = {"time_limit_seconds": HOUR, "array_tasks": "0-9"}
    world.acme.jobs[job_id] = world.acme.jobs[job_id].model_copy(update=shown)

    answers = []
    for minutes in (6, 60) * 3 + (6,):
        async with ada.patch(f"/v1/clusters/main/jobs/{job_id}", json={"time_limit": minutes}) as answer:
            answers.append(answer.status)
    used = (await quotas(ada))[0]["used"]["amount"]
    async with ada.patch(f"/v1/clusters/main/jobs/{job_id}_3", json={"time_limit": 1}) as answer:
        of_one_task = answer.status

    assert (answers, used) == ([204] * 7, "0.050000")
    assert (of_one_task, (await quotas(ada))[0]["used"]["amount"]) == (204, used)


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_job_that_became_too_dear_past_the_gateway_is_cancelled(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "1.00")
    kept, dear = [(await submit(ada))[1]["job_id"] for _ in range(2)]
    for job_id, hours in ((kept, 1), (dear, 4)):
        changed = {"time_limit_seconds": hours * HOUR, "array_tasks": "0-9"}
        world.acme.jobs[job_id] = world.acme.jobs[job_id].model_copy(update=changed)

    await until(lambda: bool(world.acme.cancelled), seconds=90, what="the cancel of the dear job")

    assert set(world.acme.cancelled) == {dear}


@pytest.mark.usefixtures("quick_sweeps")
async def test_tasks_of_an_array_that_became_dear_one_by_one_count_together(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "1.00")
    array = (await submit(ada))[1]["job_id"]
    whole = world.acme.jobs.pop(array)
    tasks = {"job_id": array, "array_tasks": "8-9", "time_limit_seconds": HOUR}
    for number in range(8):  # Slurm makes a record of each task that is changed alone
        task = f"{array}_{number}"
        world.acme.jobs[task] = whole.model_copy(update={"job_id": task, "time_limit_seconds": 9 * HOUR})
    world.acme.jobs[array] = whole.model_copy(update=tasks)

    await until(lambda: bool(world.acme.cancelled), seconds=90, what="the cancel of the array")

    assert world.acme.cancelled == [array]


@pytest.mark.parametrize(
    ("path", "limit"), [("tenant/rival", "5.00"), ("user/ada", 5.0)], ids=["of another tenant", "a float"]
)
async def test_a_quota_that_means_nothing_is_refused(world: World, path: str, limit: object) -> None:
    boss = await world.login("boss@acme.example")

    async with boss.put(f"/v1/quotas/{path}", json={"limit": limit}) as answer:
        status = answer.status

    assert status == 400


@pytest.mark.parametrize(
    ("text", "count"), [("", 1), ("7", 1), ("0-9", 10), ("0-9:3", 4), ("1-3,7%2", 4), ("0-...", 1)]
)
def test_the_tasks_of_an_array_are_counted(text: str, count: int) -> None:
    assert task_count(text) == count


@given(st.sets(st.integers(0, 40), min_size=1), st.sets(st.integers(0, 50)))
def test_tasks_with_records_of_their_own_are_not_counted_twice(waiting: set[int], apart: set[int]) -> None:
    assert task_count(",".join(map(str, waiting)), apart) == len(waiting - apart)
    assert task_count("3-30:4", apart) == len(set(range(3, 31, 4)) - apart)


async def test_a_slow_ledger_does_not_hold_up_the_cancel_of_a_job_over_its_quota(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each visit settles for a while only, and the next one goes on from there."""
    monkeypatch.setattr("clusterra_gateway.money.quotas.settling.SETTLE_SECONDS", 0.0)
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR
    await set_quota(boss, "3.00")
    ended = [(await submit(ada))[1]["job_id"] for _ in range(3)]
    dear = (await submit(ada))[1]["job_id"]
    changed = {"time_limit_seconds": 9 * HOUR, "array_tasks": "0-9"}
    world.acme.jobs[dear] = world.acme.jobs[dear].model_copy(update=changed)
    for job_id in ended:
        over = {"state": "COMPLETED", "started_at": now(), "ended_at": now()}
        world.acme.jobs[job_id] = world.acme.jobs[job_id].model_copy(update=over)
        world.acme.events.job_costs[job_id] = JobCost(runs=1, micro_usd=0, as_of=now())
    sweep = QuotaSweep(
        Reservations(world.store), SlurmRequests(world.client), LedgerRequests(world.client), world.registry
    )
    binding = world.registry.clusters[world.acme.ref]

    await sweep.sweep(world.acme.ref, binding)
    left_after_one = await reserved_jobs(world)
    for _ in ended:
        await sweep.sweep(world.acme.ref, binding)

    assert world.acme.cancelled == [dear]
    assert len(left_after_one & set(ended)) == 2
    assert not await reserved_jobs(world) & set(ended)


async def reserved_jobs(world: World) -> set[Any]:
    """The jobs that have reservations."""
    items = (await world.store.query(ACCOUNTS, reservations_partition(world.acme.ref))).items
    return {each.attributes["job_id"] for each in items}
