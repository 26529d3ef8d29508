"""Whatever is submitted from a template names it to the proxy, and no request names one by itself."""

from datetime import datetime
from typing import Any

import pytest
from gateway_world import World
from test_confirmed_costs import JOB, LAUNCH, RUNS, SESSIONS, SHELL, WORKFLOW, post
from test_quotas import BODY, SUBMIT
from test_schedules import Replica, made


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (LAUNCH, SHELL),
        (SUBMIT, {"template_id": "shell", **SHELL}),
        (SUBMIT, {"template_id": "shell", **SHELL, "job": JOB}),
        (RUNS, {"run_name": "nightly", "steps": [{"step_id": "a", "template_id": "shell", **SHELL}]}),
    ],
)
async def test_a_job_of_a_template_names_it(world: World, path: str, body: dict[str, Any]) -> None:
    ada = await world.login("ada@acme.example")

    status, _ = await post(ada, path, body)

    assert status in (200, 201, 202)
    assert [each.template for each in world.acme.submits] == ["shell"]


async def test_each_job_of_a_workflow_names_a_template(world: World) -> None:
    ada = await world.login("ada@acme.example")

    await post(ada, WORKFLOW, {})

    assert len(world.acme.submits) > 1
    assert all(each.template for each in world.acme.submits)


async def test_a_script_names_no_template_and_a_request_cannot(world: World) -> None:
    ada = await world.login("ada@acme.example")

    plain, _ = await post(ada, SUBMIT, BODY)
    refused = [(await post(ada, SUBMIT, BODY | {name: "shell"}))[0] for name in ("template", "_template")]
    in_job = [
        (await post(ada, SUBMIT, BODY | {"job": {**JOB, name: "shell"}}))[0]
        for name in ("template", "comment", "_template")
    ]

    assert plain == 201
    assert {*refused, *in_job} == {400}
    assert [each.template for each in world.acme.submits] == [""]


async def test_a_job_of_a_schedule_names_its_template(world: World) -> None:
    ada = await world.login("ada@acme.example")
    schedule = await made(ada, cron="0 0 29 2 *")

    await Replica(world).tick(datetime.fromisoformat(schedule["next_tick"]))

    assert [each.template for each in world.acme.submits] == [schedule["template_id"]]


async def test_a_session_names_its_template(world: World) -> None:
    ada = await world.login("ada@acme.example")

    status, _ = await post(ada, SESSIONS, {"template_id": "jupyter"})

    assert status == 201
    assert [each.template for each in world.acme.submits] == ["jupyter"]
