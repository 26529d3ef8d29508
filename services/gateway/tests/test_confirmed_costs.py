"""A submit answers with what its job is expected to cost; above the policy's bound it needs a confirmation."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.job_price import Expected
from clusterra_gateway.http.answers.responses import decimal
from clusterra_gateway.http.requests.errors import ConfirmationRequired
from clusterra_gateway.money.quotas.admission import check_confirmed
from clusterra_gateway.submission.models import HeterogeneousSubmission, Submission, TemplateSubmission
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.registry import put_binding
from gateway_world import World
from hypothesis import example, given
from hypothesis import strategies as st
from test_quotas import BODY, HOUR, SUBMIT, set_quota, submit

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
            return answer.status == 409

    await until(refused, seconds=90, what="the bound in the gateway", every=0.05)
    world.acme.submits.clear()
    yield world
    await put_binding(world.client, ref, before)


async def post(session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    async with session.post(path, json=body) as answer:
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

    _, run = await post(ada, "/v1/clusters/main/runs", {"run_name": "nightly", "steps": steps})

    assert [step["state"] for step in run["steps"]] == [state]
    assert ("0.500000 USD per hour" in json.dumps(run["steps"])) == (state == "rejected")


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
    ):
        assert model.model_validate(one).digest() == model.model_validate(other).digest()
    # As an earlier release computes it, which has no such field.
    assert b"confirmed" not in Submission.model_validate({"script": "#!", "job": job}).canonical()
