"""Estimates over HTTP: the answer, its money, and that nothing is submitted."""

from typing import Any

import pytest
from gateway_world import World

ESTIMATE = "/v1/clusters/main/jobs/estimate"
JOB = {"name": "hello", "environment": ["PATH=/usr/bin:/bin"], "nodes": "1"}
SUBMISSION: dict[str, Any] = {"script": "#!/bin/bash\n#SBATCH --array=0-9\nhostname\n", "job": JOB}


async def test_an_estimate_has_costs_as_decimal_strings_and_submits_nothing(world: World) -> None:
    browser = await world.login("ada@acme.example")

    async with browser.post(ESTIMATE, json=SUBMISSION) as answer:
        assert answer.status == 200
        body = await answer.json()

    assert body["cost"] == {
        "currency": "USD",
        "per_hour": "0.040000",
        "at_most": "0.060000",
        "total_at_most": "0.600000",
    }
    assert (body["wait"], body["tasks"], body["time_limit_seconds"]) == ("boot", 10, 5400)
    assert body["workers"] == [{"kind": "new", "shape": "compute-xs", "count": 5}]
    assert [(each["shape"], each["verdict"]) for each in body["alternatives"]] == [
        *(("compute-xs", "chosen"), ("memory-xs", "too_small")),
    ]
    assert body["warnings"] == ["line 2 of the script: no effect"]
    (asked,) = world.acme.prepared
    assert (asked.user.name, asked.user.uid, asked.script) == ("ada", 20001, SUBMISSION["script"])
    assert (world.acme.submits, world.acme.jobs) == ([], {})


@pytest.mark.parametrize("body", [{}, {"script": "x"}, {**SUBMISSION, "job": {**JOB, "user_id": 0}}])
async def test_a_body_that_a_submit_refuses_is_refused(world: World, body: dict[str, Any]) -> None:
    browser = await world.login("ada@acme.example")

    async with browser.post(ESTIMATE, json=body) as answer:
        assert answer.status == 400


async def test_what_the_proxy_refuses_is_refused(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.submit_error = "rejected"

    async with browser.post(ESTIMATE, json=SUBMISSION) as answer:
        assert answer.status == 422


async def test_an_estimate_is_unavailable_without_a_scaler(world: World) -> None:
    browser = await world.login("ada@acme.example")
    await world.acme.stop_serving()

    async with browser.post(ESTIMATE, json=SUBMISSION) as answer:
        assert answer.status == 503
        assert answer.headers["Retry-After"]


async def test_a_dry_run_of_a_submit_is_its_estimate(world: World) -> None:
    browser = await world.login("ada@acme.example")
    submit, key = "/v1/clusters/main/jobs/submit", {"Idempotency-Key": "dry-run-0001"}

    async with browser.post(ESTIMATE, json=SUBMISSION) as answer:
        estimate = await answer.json()
    async with browser.post(f"{submit}?dry_run=true", json=SUBMISSION, headers=key) as answer:
        assert answer.status == 200
        dry = await answer.json()

    moments = ("as_of", "expected_start")
    assert {**dry, **dict.fromkeys(moments)} == {**estimate, **dict.fromkeys(moments)}
    assert world.acme.submits == []
    async with browser.post(f"{submit}?dry_run=false", json=SUBMISSION, headers=key) as answer:
        assert answer.status == 201
        assert (await answer.json())["repeated"] is False
    async with browser.post(f"{submit}?dry_run=perhaps", json=SUBMISSION) as answer:
        assert answer.status == 400
