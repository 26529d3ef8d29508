"""A submit answers with what its job is expected to cost; above the policy's bound it needs a confirmation."""

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.job_price import Expected
from clusterra_gateway.http.answers.responses import decimal
from clusterra_gateway.http.requests.errors import ConfirmationRequired
from clusterra_gateway.money.quotas.admission import check_confirmed
from clusterra_gateway.sessions.session_jobs import NewSession
from clusterra_gateway.submission.models import HeterogeneousSubmission, Submission, TemplateSubmission
from clusterra_gateway.templates.models import LaunchRequest
from clusterra_gateway.templates.schedule_models import NewSchedule
from clusterra_gateway.workflows.models import RunRequest
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.registry import put_binding
from gateway_world import World
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel
from test_quotas import BODY, HOUR, SUBMIT, set_quota, submit
from test_schedules import Replica, made, read

RUNS = "/v1/clusters/main/runs"
LAUNCH = "/v1/launchables/shell/submit"
WORKFLOW = "/v1/launchables/benchmark-report/submit"
SESSIONS = "/v1/clusters/main/sessions"
SHELL: Any = {"params": {"commands": "true"}}
REST = "/v1/clusters/main/slurm/v0.0.44/job/submit"
JOB: Any = BODY["job"]


@pytest.fixture
async def capped(world: World) -> AsyncIterator[World]:
    """A world whose cluster asks for a confirmation of more than 0.40 USD per hour. The jobs cost 0.50."""
    ref = ClusterRef(tenant="acme", cluster="main")
    before = world.registry.clusters[ref]
    policy = before.policy.model_copy(update={"max_usd_per_hour_without_confirmation": 0.4})
    await put_binding(world.client, ref, before.model_copy(update={"policy": policy}))
    ada = await world.login("ada@acme.example")

    async def refused() -> bool:
        async with ada.post(SUBMIT, json=BODY) as answer:
            # Schedules are submitted with the test's own registry.
            return answer.status == 409 and world.registry.clusters[ref].policy == policy

    await until(refused, seconds=90, what="the bound in the gateway", every=0.05)
    world.acme.submits.clear()
    yield world
    await put_binding(world.client, ref, before)


async def post(
    session: aiohttp.ClientSession, path: str, body: dict[str, Any], key: str = ""
) -> tuple[int, dict[str, Any]]:
    async with session.post(path, json=body, headers={"Idempotency-Key": key} if key else {}) as answer:
        return answer.status, await answer.json()


async def test_a_job_above_the_bound_is_refused_with_its_price_its_shape_and_the_field_that_confirms(
    capped: World,
) -> None:
    ada = await capped.login("ada@acme.example")

    status, problem = await post(ada, SUBMIT, BODY)

    assert (status, problem["type"]) == (409, "/v1/problems/confirmation-required")
    assert "0.500000 USD per hour on compute-xs" in problem["detail"]
    assert '"confirmed_usd_per_hour": 0.500000 in `job`' in problem["hint"]
    assert capped.acme.submits == []


@pytest.mark.parametrize(("confirmed", "expected"), [(0.5, 201), (0.499, 409)])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (SUBMIT, lambda job: {"script": "#!/bin/sh\n", "job": job}),
        (SUBMIT, lambda job: {"script": "#!/bin/sh\n", "jobs": [{**job, "name": "a"}, JOB]}),
        (REST, lambda job: {"script": "#!/bin/sh\n", "job": job}),
    ],
    ids=["a job", "components", "slurmrestd's shape"],
)
async def test_a_confirmation_of_at_least_the_price_lets_a_job_pass_whichever_way_in(
    capped: World, path: str, body: Any, confirmed: float, expected: int
) -> None:
    ada = await capped.login("ada@acme.example")
    # Two components: ten tasks with half a worker, and ten with a whole one.
    price = confirmed * 3 if "jobs" in body({}) else confirmed

    status, answer = await post(ada, path, body({**JOB, "confirmed_usd_per_hour": price}))

    assert status in ({201, 200} if expected == 201 else {expected}), answer
    assert len(capped.acme.submits) == (expected == 201)


@example(1989)
@given(st.integers(1, 10**12))
def test_the_price_that_is_told_confirms_and_a_millionth_less_does_not(micro_usd: int) -> None:
    expected = Expected(micro_usd, None, ("compute-xs",))

    check_confirmed(expected, 0.0, float(decimal(micro_usd)))
    with pytest.raises(ConfirmationRequired):
        check_confirmed(expected, 0.0, float(decimal(micro_usd - 1)))


@pytest.mark.parametrize(("confirmed", "state"), [({"confirmed_usd_per_hour": 9}, "submitted"), ({}, "rejected")])
async def test_a_step_of_a_run_needs_the_confirmation_too(capped: World, confirmed: dict[str, Any], state: str) -> None:
    ada = await capped.login("ada@acme.example")
    steps = [{"step_id": "a", "script": "#!/bin/sh\n", "job": {**JOB, **confirmed}, "depends_on": []}]

    _, run = await post(ada, RUNS, {"run_name": "nightly", "steps": steps})

    assert [step["state"] for step in run["steps"]] == [state]
    assert ("0.500000 USD per hour" in json.dumps(run["steps"])) == (state == "rejected")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (LAUNCH, SHELL),
        (LAUNCH, SHELL["params"]),
        (SUBMIT, {"template_id": "shell", **SHELL}),
        (SESSIONS, {"template_id": "jupyter"}),
    ],
    ids=["a launch", "a flat form", "a submit with a template", "a session"],
)
async def test_a_form_is_refused_without_the_confirmation_and_passes_with_it_and_the_same_key(
    capped: World, path: str, body: dict[str, Any]
) -> None:
    ada = await capped.login("ada@acme.example")

    refused, problem = await post(ada, path, body, "form-0001")
    too_low, _ = await post(ada, path, body | {"confirmed_usd_per_hour": 0.499}, "form-0001")
    passed, job = await post(ada, path, body | {"confirmed_usd_per_hour": 0.5}, "form-0001")
    dearer, again = await post(ada, path, body | {"confirmed_usd_per_hour": 0.6}, "form-0001")

    assert (refused, problem["type"], too_low) == (409, "/v1/problems/confirmation-required", 409)
    assert "0.500000 USD per hour on compute-xs" in problem["detail"]
    assert '"confirmed_usd_per_hour": 0.500000 in `job`, or beside `params` for a template' in problem["hint"]
    assert (passed, dearer) == (201, 201), job
    assert (again["job_id"], again["repeated"]) == (job["job_id"], True)
    assert len(capped.acme.submits) == 1


async def test_the_confirmation_in_the_job_of_a_template_wins_over_the_one_beside_it(capped: World) -> None:
    ada = await capped.login("ada@acme.example")
    body = {"template_id": "shell", **SHELL, "confirmed_usd_per_hour": 9}

    refused, _ = await post(ada, SUBMIT, body | {"job": {**JOB, "confirmed_usd_per_hour": 0.1}})
    passed, _ = await post(ada, SUBMIT, body | {"job": JOB})

    assert (refused, passed) == (409, 201)


@pytest.mark.parametrize("path", [LAUNCH, SESSIONS, "/v1/schedules", RUNS, SUBMIT])
@pytest.mark.parametrize("wrong", [-1, True, "much", 1e200])
async def test_a_confirmation_that_is_no_amount_is_refused_by_each_form(world: World, path: str, wrong: Any) -> None:
    ada = await world.login("ada@acme.example")
    form = {**SHELL, "confirmed_usd_per_hour": wrong}
    body: dict[str, Any] = {
        LAUNCH: form,
        RUNS: {"run_name": "x", "steps": [{"step_id": "a", "template_id": "shell", **form}]},
        "/v1/schedules": {"name": "x", "template_id": "shell", "cron": "0 0 29 2 *", **form},
    }.get(path, {"template_id": "shell", **form})

    status, problem = await post(ada, path, body)

    assert status == 400
    assert [each["pointer"].endswith("/confirmed_usd_per_hour") for each in problem["errors"]] == [True]


@pytest.mark.parametrize(("confirmed", "state"), [({"confirmed_usd_per_hour": 0.5}, "submitted"), ({}, "rejected")])
async def test_a_step_from_a_template_needs_the_confirmation_too(
    capped: World, confirmed: dict[str, Any], state: str
) -> None:
    ada = await capped.login("ada@acme.example")
    steps = [{"step_id": "a", "template_id": "shell", **SHELL, **confirmed}]

    _, run = await post(ada, RUNS, {"run_name": "nightly", "steps": steps})

    assert [step["state"] for step in run["steps"]] == [state]
    assert ('"confirmed_usd_per_hour": 0.500000' in run["steps"][0]["reason"]) == (state == "rejected")


async def test_a_confirmation_of_a_workflow_is_that_of_each_of_its_jobs_and_belongs_to_its_key(capped: World) -> None:
    ada = await capped.login("ada@acme.example")
    confirmed = {"confirmed_usd_per_hour": 0.5}

    _, refused = await post(ada, WORKFLOW, {}, "workflow-1")
    reused, _ = await post(ada, WORKFLOW, confirmed, "workflow-1")
    _, passed = await post(ada, WORKFLOW, confirmed, "workflow-2")

    states = []
    for launched in (refused, passed):
        async with ada.get(f"{RUNS}/{launched['run_id']}") as answer:
            states.append([step["state"] for step in (await answer.json())["steps"]])
    assert states[0][:2] == ["rejected", "rejected"]
    assert states[1] == ["submitted"] * 3
    # The run with the first key exists, and would not be another one for the confirmation.
    assert reused == 422


async def test_a_tiny_confirmation_can_be_stored(world: World) -> None:
    ada = await world.login("ada@acme.example")

    schedule = await made(ada, cron="0 0 29 2 *", confirmed_usd_per_hour=1e-200)

    assert schedule["confirmed_usd_per_hour"] == 0


@pytest.mark.parametrize(("template_id", "params"), [("shell", SHELL["params"]), ("benchmark-report", {})])
async def test_a_schedule_keeps_its_confirmation_for_each_tick(
    capped: World, template_id: str, params: dict[str, Any]
) -> None:
    ada = await capped.login("ada@acme.example")
    form: Any = {"template_id": template_id, "params": params, "cron": "0 0 29 2 *"}
    schedule = await made(ada, **form, confirmed_usd_per_hour=0.5)

    replica, outcomes, submits = Replica(capped), [], []
    for _ in range(2):
        await replica.tick(datetime.fromisoformat((await read(ada, schedule["id"]))["next_tick"]))
        outcomes.append((await read(ada, schedule["id"]))["last_outcome"])
        submits.append(len(capped.acme.submits))
        for job_id in list(capped.acme.jobs):
            capped.acme.set_state(job_id, "COMPLETED")

    jobs = 1 if template_id == "shell" else 3
    assert schedule["confirmed_usd_per_hour"] == 0.5
    assert (outcomes, submits) == (["submitted"] * 2, [jobs, 2 * jobs])


@pytest.mark.parametrize("confirmed", [{}, {"confirmed_usd_per_hour": 0.499}])
async def test_a_tick_that_is_dearer_than_confirmed_is_left_out_and_the_owner_reads_why(
    capped: World, confirmed: dict[str, Any]
) -> None:
    ada = await capped.login("ada@acme.example")
    schedule = await made(ada, cron="0 0 29 2 *", **confirmed)

    await Replica(capped).tick(datetime.fromisoformat(schedule["next_tick"]) + timedelta(seconds=1))

    outcome = (await read(ada, schedule["id"]))["last_outcome"]
    assert outcome.startswith("not submitted: the job is expected to cost 0.500000 USD per hour on compute-xs")
    assert '"confirmed_usd_per_hour": 0.500000' in outcome
    assert capped.acme.submits == []


async def test_a_submit_that_is_priced_answers_with_the_expected_cost_and_another_one_does_not(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    world.acme.time_limit_seconds = HOUR / 2

    _, unpriced = await submit(ada)
    await set_quota(boss, "5.00")
    _, priced = await submit(ada)

    assert unpriced["expected"] is None
    assert priced["expected"] == {
        "usd_per_hour": {"amount": "0.500000", "currency": "USD"},
        "total": {"amount": "0.250000", "currency": "USD"},
        "shapes": ["compute-xs"],
    }


def test_a_confirmation_is_no_part_of_what_an_idempotency_key_stands_for() -> None:
    job = {"environment": ["PATH=/bin"]}
    confirmed = {**job, "confirmed_usd_per_hour": 9.5}

    for model, one, other in (
        (Submission, {"script": "#!", "job": job}, {"script": "#!", "job": confirmed}),
        (HeterogeneousSubmission, {"script": "#!", "jobs": [job, job]}, {"script": "#!", "jobs": [confirmed, job]}),
        (TemplateSubmission, {"template_id": "t", "job": job}, {"template_id": "t", "job": confirmed}),
        (TemplateSubmission, {"template_id": "t"}, {"template_id": "t", "confirmed_usd_per_hour": 9.5}),
        (NewSession, {"template_id": "t"}, {"template_id": "t", "confirmed_usd_per_hour": 9.5}),
    ):
        assert model.model_validate(one).digest() == model.model_validate(other).digest()
    # As an earlier release computes it, which has no such field.
    assert b"confirmed" not in Submission.model_validate({"script": "#!", "job": job}).canonical()


def test_nothing_is_written_of_a_confirmation_that_is_not_there() -> None:
    step = {"step_id": "a", "template_id": "shell"}
    confirmed = {"confirmed_usd_per_hour": 9.5}
    new = {"name": "x", "template_id": "shell", "cron": "0 0 29 2 *"}
    forms: tuple[tuple[type[BaseModel], dict[str, str]], ...] = (
        (LaunchRequest, {}),
        (NewSession, {"template_id": "shell"}),
        (NewSchedule, new),
    )

    # Digests and records are those of earlier releases, which have no such field.
    for model, form in forms:
        assert "confirmed" not in model.model_validate(form).model_dump_json()
    one, other = (RunRequest.model_validate({"run_name": "r", "steps": [each]}) for each in (step, step | confirmed))
    assert "confirmed" not in one.model_dump_json()
    assert one.digest() != other.digest()
