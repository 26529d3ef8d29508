"""Runs through the API: what reaches the proxy, who sees them, and who goes on with one that was left."""

import asyncio
from typing import Any, cast

import aiohttp
import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.workflows import controller, start, sweep, workflow_records
from clusterra_gateway.workflows.controller import WorkflowController
from clusterra_gateway.workflows.models import RunRequest
from clusterra_gateway.workflows.table import RUNS as WORKFLOW_ITEMS
from clusterra_gateway.workflows.workflow import Workflow
from clusterra_gateway.workflows.workflow_records import WorkflowRecords
from clusterra_lab.machine.process import until
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.optimistic_write import Overtaken
from clusterra_runtime.store.store import Update
from gateway_world import World
from people_world import change, me

RUNS = "/v1/clusters/main/runs"
JOB = {"environment": ["PATH=/usr/bin:/bin"]}
DIGEST = "4931816ed61db25a16cfdc09df8ec5cb78da2d27057652e63c9d4d5a1ab797c3"
"""Of the run of two steps that `test_a_run_has_the_digest_that_earlier_releases_write` names."""


def steps(*ids: str, **of: Any) -> list[dict[str, Any]]:
    return [{"step_id": each, "script": f"#!/bin/sh\necho {each}\n", "job": JOB} | of.get(each, {}) for each in ids]


async def started(
    browser: aiohttp.ClientSession, wanted: list[dict[str, Any]], *, key: str = "", status: int = 201
) -> dict[str, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    async with browser.post(RUNS, json={"run_name": "nightly", "steps": wanted}, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        shown: dict[str, Any] = await answer.json()
        return shown


async def read(browser: aiohttp.ClientSession, run_id: str) -> dict[str, Any]:
    async with browser.get(f"{RUNS}/{run_id}") as answer:
        assert answer.status == 200, await answer.text()
        shown: dict[str, Any] = await answer.json()
        return shown


def states(run: dict[str, Any]) -> list[str]:
    return [step["state"] for step in run["steps"]]


async def test_steps_are_submitted_as_a_chain(world: World) -> None:
    ada = await world.login("ada@acme.example")

    run = await started(ada, steps("get", "align", "report"))

    assert [each.job.dependency for each in world.acme.submits] == [None, "afterok:1", "afterok:2"]
    assert all(each.kill_on_invalid_dependency for each in world.acme.submits)
    assert run["state"] == "active"
    assert [step["job_id"] for step in run["steps"]] == ["1", "2", "3"]


async def test_a_step_has_all_fields_of_a_submit(world: World) -> None:
    ada = await world.login("ada@acme.example")
    further = {"distribution": "cyclic", "flags": ["SPREAD_JOB"]}

    await started(ada, steps("get", "align", align={"job": JOB | further}))

    first, second = world.acme.submits
    assert first.further == FurtherFields()
    assert second.further == FurtherFields(distribution="cyclic", flags=("SPREAD_JOB",))
    assert second.job.dependency == "afterok:1"


def test_a_run_has_the_digest_that_earlier_releases_write() -> None:
    run = RunRequest(run_name="x", steps=steps("get", "align"))
    further = RunRequest(run_name="x", steps=steps("get", "align", align={"job": JOB | {"distribution": "cyclic"}}))

    assert run.digest() == DIGEST
    assert further.digest() != DIGEST


async def test_a_run_shows_what_became_of_its_jobs_and_can_be_resumed(world: World) -> None:
    ada = await world.login("ada@acme.example")
    run = await started(ada, steps("get", "align", "report"))
    world.acme.set_state("1", "COMPLETED")
    world.acme.set_state("2", "FAILED")
    async with ada.post(f"{RUNS}/{run['run_id']}/resume") as answer:
        assert answer.status == 409

    world.acme.set_state("3", "CANCELLED")
    shown = await read(ada, run["run_id"])
    assert (shown["state"], states(shown)) == ("failed", ["completed", "failed", "cancelled"])
    async with ada.post(f"{RUNS}/{run['run_id']}/resume") as answer:
        assert answer.status == 202

    assert [each.job.dependency for each in world.acme.submits[3:]] == [None, "afterok:4"]
    world.acme.set_state("4", "COMPLETED")
    world.acme.set_state("5", "COMPLETED")
    shown = await read(ada, run["run_id"])
    assert (shown["state"], shown["steps"][1]["earlier_jobs"]) == ("completed", ["2"])


async def test_a_rejected_step_cancels_what_depends_on_it_and_nothing_else(world: World) -> None:
    ada = await world.login("ada@acme.example")
    world.acme.submit_error = "rejected"

    run = await started(ada, steps("a", "b", "c", c={"depends_on": []}))

    assert run["state"] == "failed"
    assert {step["step_id"]: step["state"] for step in run["steps"]} == {
        "a": "rejected",
        "b": "cancelled",
        "c": "rejected",
    }
    assert "rejected as the test wants it" in run["steps"][0]["reason"]


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_run_whose_gateway_got_no_answer_is_gone_on_with(world: World) -> None:
    ada = await world.login("ada@acme.example")
    world.acme.lose_replies = 2

    run = await started(ada, steps("a", "b"))
    assert run["state"] == "submitting"

    async def is_active() -> bool:
        return bool((await read(ada, run["run_id"]))["state"] == "active")

    await until(is_active, seconds=60, what="all steps to be submitted")
    assert sorted(world.acme.jobs) == ["1", "2"]


async def test_a_run_is_cancelled(world: World) -> None:
    ada = await world.login("ada@acme.example")
    run = await started(ada, steps("a", "b"))
    world.acme.set_state("1", "COMPLETED")

    for _ in range(2):
        async with ada.delete(f"{RUNS}/{run['run_id']}") as answer:
            assert answer.status == 202
            assert (await answer.json())["state"] in ("cancelling", "cancelled")

    assert world.acme.cancelled == ["2"]
    world.acme.set_state("2", "CANCELLED")
    assert (await read(ada, run["run_id"]))["state"] == "cancelled"


async def test_a_key_starts_one_run(world: World) -> None:
    ada = await world.login("ada@acme.example")

    runs = await asyncio.gather(*(started(ada, steps("a", "b"), key="nightly-1") for _ in range(10)))

    assert len({run["run_id"] for run in runs}) == 1
    again = {"run_name": "nightly", "steps": steps("a", "b")}
    async with ada.post(RUNS, json=again, headers={"Idempotency-Key": "nightly-1"}) as answer:
        assert (answer.status, answer.headers["Idempotent-Replayed"]) == (201, "true")
    await until(lambda: len(world.acme.jobs) == 2, seconds=90, what="both jobs")
    assert (await started(ada, steps("a"), key="nightly-1", status=422))["type"].endswith("key-reused")


@pytest.mark.parametrize(("name", "status", "listed"), [("ada", 200, 1), ("bob", 404, 0), ("boss", 200, 1)])
async def test_others_see_no_run_but_admins_do(world: World, name: str, status: int, listed: int) -> None:
    run = await started(await world.login("ada@acme.example"), steps("a"))
    viewer = await world.login(f"{name}@acme.example")

    async with viewer.get(f"{RUNS}/{run['run_id']}") as answer:
        told = answer.status
    async with viewer.get(RUNS) as answer:
        runs = (await answer.json())["runs"]

    assert (told, len(runs)) == (status, listed)


async def test_nobody_but_its_owner_changes_a_run(world: World) -> None:
    ada, bob, boss = [await world.login(f"{name}@acme.example") for name in ("ada", "bob", "boss")]
    run = await started(ada, steps("a"))

    async with (
        bob.delete(f"{RUNS}/{run['run_id']}") as of_member,
        boss.post(f"{RUNS}/{run['run_id']}/resume") as of_admin,
    ):
        statuses = (of_member.status, of_admin.status)

    assert statuses == (404, 403)


async def test_a_list_has_pages(world: World) -> None:
    ada = await world.login("ada@acme.example")
    made = [(await started(ada, steps("a")))["run_id"] for _ in range(3)]

    found, cursor = [], ""
    while cursor is not None:
        async with ada.get(RUNS, params={"limit": 2} | ({"cursor": cursor} if cursor else {})) as answer:
            page = await answer.json()
        found += [run["run_id"] for run in page["runs"]]
        cursor = page["cursor"]

    assert found == made[::-1]
    async with ada.get(RUNS, params={"cursor": "forged"}) as answer:
        assert answer.status == 400


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ([], 400),
        (steps("a", "a"), 400),
        (steps("a", a={"depends_on": ["b"]}), 400),
        (steps("a", "b", a={"depends_on": ["b"]}), 400),
        (steps("a", a={"job": JOB | {"dependency": "afterok:1"}}), 400),
        (steps("a", a={"script": "#!/bin/sh\n" + "#" * 300_000}), 413),
        (steps(*(f"s{index}" for index in range(65))), 400),
    ],
)
async def test_impossible_runs_are_refused(world: World, wanted: list[dict[str, Any]], status: int) -> None:
    ada = await world.login("ada@acme.example")

    await started(ada, wanted, status=status)

    assert world.acme.submits == []


async def listed(browser: aiohttp.ClientSession) -> list[dict[str, Any]]:
    async with browser.get(RUNS) as answer:
        assert answer.status == 200, await answer.text()
        shown: list[dict[str, Any]] = (await answer.json())["runs"]
        return shown


async def test_a_list_has_the_present_states(world: World) -> None:
    ada = await world.login("ada@acme.example")
    for _ in range(3):
        await started(ada, steps("get", "align"))
    for job_id, state in (("1", "COMPLETED"), ("2", "COMPLETED"), ("3", "FAILED"), ("4", "CANCELLED")):
        world.acme.set_state(job_id, state)

    assert [run["state"] for run in await listed(ada)] == ["active", "failed", "completed"]


async def test_a_list_has_the_last_states_of_jobs_that_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await world.login("ada@acme.example")
    await started(ada, steps("a"))
    await started(ada, steps("a"))
    world.acme.unreadable_jobs.add("1")
    world.acme.set_state("2", "COMPLETED")

    assert [run["state"] for run in await listed(ada)] == ["completed", "active"]

    monkeypatch.setattr(controller, "LIST_SECONDS", 0.0)
    await started(ada, steps("a"))
    world.acme.set_state("3", "COMPLETED")
    assert [run["state"] for run in await listed(ada)] == ["active", "completed", "active"]


async def test_many_lists_of_a_person_read_no_more_jobs_at_a_time_than_their_bound(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    monkeypatch.setattr(controller, "LIST_SECONDS", 90.0)
    monkeypatch.setattr(controller, "READS_OF_A_PERSON", 3)
    for _ in range(2):
        await started(ada, [step | {"depends_on": []} for step in steps(*map(str, range(8)))])
    under_way, most, go_on = 0, 0, asyncio.Event()
    job = SlurmRequests.job

    async def held(self: SlurmRequests, ref: ClusterRef, viewer: Viewer, job_id: str) -> Job:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await go_on.wait()
        under_way -= 1
        return await job(self, ref, viewer, job_id)

    monkeypatch.setattr(SlurmRequests, "job", held)
    lists = [asyncio.create_task(listed(ada)) for _ in range(4)]
    await until(lambda: under_way == 3, seconds=90, what="the reads of one person")
    lists.append(asyncio.create_task(listed(boss)))
    await until(lambda: under_way == 6, seconds=90, what="the reads of another person beside them")
    go_on.set()

    assert [len(runs) for runs in await asyncio.gather(*lists)] == [2] * 5
    assert most == 6


async def test_a_member_keeps_a_bounded_number_of_runs_that_have_not_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await world.login("ada@acme.example")
    monkeypatch.setattr(start, "MAX_WORKFLOWS", 1)
    await started(ada, steps("a"), key="first-run")

    refused = await started(ada, steps("a"), status=409)

    assert "1 runs of yours have not ended" in refused["detail"]
    await started(ada, steps("a"), key="first-run")


async def test_the_oldest_run_that_has_ended_makes_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    monkeypatch.setattr(start, "MAX_WORKFLOWS", 3)
    runs = [await started(ada, steps("a", "b"), key=f"run-number-{number}") for number in range(3)]
    for job_id in ("3", "4", "5", "6"):
        world.acme.set_state(job_id, "COMPLETED")

    newest = await started(ada, steps("a", "b"))

    assert [run["run_id"] for run in await listed(ada)] == [newest["run_id"], runs[2]["run_id"], runs[0]["run_id"]]
    removed = runs[1]["run_id"]
    parts = await world.store.query(WORKFLOW_ITEMS, f"run#acme.main#{removed}")
    assert [item.key.sk for item in parts.items] == ["run"]
    # Its key still starts no second run, and it is shown as it ended.
    assert (await started(ada, steps("a", "b"), key="run-number-1"))["run_id"] == removed
    assert (await read(ada, removed))["state"] == "completed"
    async with boss.get(RUNS) as answer:
        assert removed in [run["run_id"] for run in (await answer.json())["runs"]]
    async with ada.post(f"{RUNS}/{removed}/resume") as answer:
        assert (answer.status, "cannot be resumed" in (await answer.json())["detail"]) == (409, True)


async def test_a_run_of_earlier_days_that_makes_room_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    monkeypatch.setattr(start, "MAX_WORKFLOWS", 1)
    monkeypatch.setattr(workflow_records, "KEEP_SECONDS", 0)
    first = await started(ada, steps("a"))
    world.acme.set_state("1", "FAILED")
    key = Key(f"run#acme.main#{first['run_id']}", "run")

    async def event_is_sent() -> bool:
        item = await world.store.get(WORKFLOW_ITEMS, key)
        return item is not None and "outbox" not in item.attributes

    assert (await read(ada, first["run_id"]))["state"] == "failed"
    await until(event_is_sent, seconds=90, what="the event of the end to be sent", every=0.01)

    second = await started(ada, steps("a"))

    async with ada.get(f"{RUNS}/{first['run_id']}") as answer:
        assert answer.status == 404
    for browser in (ada, boss):
        assert [run["run_id"] for run in await listed(browser)] == [second["run_id"]]
    parts = await world.store.query(WORKFLOW_ITEMS, f"run#acme.main#{first['run_id']}")
    assert parts.items == ()


async def test_starts_at_the_same_time_keep_the_bound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")
    monkeypatch.setattr(start, "MAX_WORKFLOWS", 4)
    for _ in range(4):
        await started(ada, steps("a"))
    for job_id in list(world.acme.jobs):
        world.acme.set_state(job_id, "COMPLETED")

    await asyncio.gather(*(started(ada, steps("a")) for _ in range(4)))
    for job_id in list(world.acme.jobs):
        world.acme.set_state(job_id, "COMPLETED")
    await started(ada, steps("a"))

    assert len(await listed(ada)) <= 4


async def test_one_start_of_a_person_looks_for_room_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")
    monkeypatch.setattr(start, "MAX_WORKFLOWS", 3)
    for _ in range(3):
        await started(ada, steps("a"))
    reads, at_once = WorkflowController.refreshed, [0]

    async def counted(self: WorkflowController, *given: Any, **named: Any) -> Workflow:
        at_once.append(at_once[-1] + 1)
        try:
            return await reads(self, *given, **named)
        finally:
            at_once.append(at_once[-1] - 1)

    monkeypatch.setattr(WorkflowController, "refreshed", counted)
    await asyncio.gather(*(started(ada, steps("a"), status=409) for _ in range(10)))

    assert max(at_once) == 1


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_cluster_that_does_not_answer_holds_up_no_other_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "ADVANCE_SECONDS", 1.0)
    ada, eve = await world.login("ada@acme.example"), await world.login("eve@rival.example")
    world.rival.hold = asyncio.Event()
    others = "/v1/clusters/secret/runs"

    async def start_stuck() -> None:
        async with eve.post(others, json={"run_name": "stuck", "steps": steps("a")}) as answer:
            assert (answer.status, (await answer.json())["state"]) == (201, "submitting")

    await asyncio.gather(*(start_stuck() for _ in range(5)))
    swept = len(world.rival.submits)
    await until(lambda: len(world.rival.submits) > swept, seconds=90, what="a round of the sweep to wait for Slurm")
    world.acme.lose_replies = 1
    run = await started(ada, steps("a"))

    async def is_active() -> bool:
        return bool((await read(ada, run["run_id"]))["state"] == "active")

    # Shorter than the time that a gateway waits for the answer to one submit.
    await until(is_active, seconds=90, what="the run of the other cluster to be submitted")
    world.rival.hold.set()

    async def all_are_active() -> bool:
        async with eve.get(others) as answer:
            return {each["state"] for each in (await answer.json())["runs"]} == {"active"}

    await until(all_are_active, seconds=120, what="the runs to be submitted once Slurm answers")
    assert len(world.rival.jobs) == 5


async def test_many_clusters_that_do_not_answer_hold_up_no_other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "INTERVAL_SECONDS", 0.01)
    silent = [ClusterRef(tenant=f"t{number}", cluster="c") for number in range(2 * sweep.CLUSTERS_AT_A_TIME)]
    found, asked, hold = [(ref, "run") for ref in silent], set[ClusterRef](), asyncio.Event()
    well = ClusterRef(tenant="well", cluster="c")

    class Records:
        async def unfinished(self) -> list[tuple[ClusterRef, str]]:
            return found

    class Work:
        async def advance(self, ref: ClusterRef, _run_id: str) -> None:
            if ref != well and (hold.is_set() or ref in asked):
                await asyncio.Event().wait()
            asked.add(ref)
            if ref != well:
                raise Unavailable("no answer", hint="")

    rounds = asyncio.create_task(sweep.WorkflowSweep(cast(Any, Records()), cast(Any, Work())).sweeper().run())
    await until(lambda: len(asked) == len(silent), seconds=90, what="each cluster to be asked once", every=0.01)
    hold.set()
    found.append((well, "run"))
    await until(lambda: well in asked, seconds=30, what="the cluster that answers", every=0.01)
    rounds.cancel()


async def test_a_run_that_others_keep_changing_is_not_available(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")
    run = await started(ada, steps("a"))
    world.acme.set_state(run["steps"][0]["job_id"], "FAILED")

    async def overtaken(*_: object) -> None:
        raise Overtaken("another gateway was faster")

    monkeypatch.setattr(WorkflowRecords, "_replace", overtaken)

    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/resume")):
        async with ada.request(method, f"{RUNS}/{run['run_id']}{path}") as answer:
            assert answer.status == 503


async def test_a_damaged_run_hides_no_other(world: World) -> None:
    ada = await world.login("ada@acme.example")
    damaged, sound = [await started(ada, steps("a")) for _ in range(2)]
    key = Key(f"run#acme.main#{damaged['run_id']}", "run")
    await world.store.write(Update(WORKFLOW_ITEMS, key, set={"run": '{"id": 7}'}))

    async with ada.get(RUNS) as answer:
        assert [run["run_id"] for run in (await answer.json())["runs"]] == [sound["run_id"]]


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_member_who_lost_the_role_gets_no_further_step(world: World) -> None:
    ada = await world.login("ada@acme.example")
    world.acme.lose_replies = 1
    run = await started(ada, steps("a", "b"))
    world.acme.hold = asyncio.Event()
    boss = await world.login("boss@acme.example")
    async with ada.get("/v1/users/me") as answer:
        me = await answer.json()
    async with boss.get("/v1/members") as answer:
        member = next(each for each in (await answer.json())["members"] if each["name"] == me["name"])
    async with boss.patch(f"/v1/members/{member['id']}", json={"role": "viewer"}) as answer:
        assert answer.status == 200, await answer.text()
    world.acme.hold.set()

    async def is_cancelled() -> bool:
        return (await read(boss, run["run_id"]))["state"] in ("cancelling", "cancelled")

    await until(is_cancelled, seconds=60, what="the run to be cancelled")
    await until(lambda: world.acme.cancelled == ["1"], seconds=60, what="its job to be cancelled")
    assert sorted(world.acme.jobs) == ["1"]


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_disabled_member_gets_no_job_from_a_step_whose_submit_had_begun(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Until then, the cluster may still make the job.
    monkeypatch.setattr("clusterra_gateway.submits.claim.SETTLED_SECONDS", 0.5)
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    world.acme.submit_error = "unavailable"
    run = await started(ada, steps("a"))
    assert states(run) == ["submitting"]

    assert await change(boss, (await me(ada))["id"], disabled=True) == 200
    world.acme.submit_error = None

    async def is_rejected() -> bool:
        return states(await read(boss, run["run_id"])) == ["rejected"]

    await until(is_rejected, seconds=60, what="the step to be rejected")
    assert not world.acme.keys


@pytest.mark.usefixtures("quick_sweeps")
async def test_a_job_from_before_its_owner_was_disabled_is_found(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    world.acme.lose_replies = 1
    run = await started(ada, steps("a"))
    assert states(run) == ["submitting"]

    assert await change(boss, (await me(ada))["id"], disabled=True) == 200

    async def is_submitted() -> bool:
        return states(await read(boss, run["run_id"])) == ["submitted"]

    await until(is_submitted, seconds=60, what="the job to be found")
    assert len(world.acme.keys) == 1
