"""Templates of the catalogue on real Slurm: the example of each does its work, as its own check says.

Only those are tried whose programs the lab's workers have.
"""

import asyncio
from datetime import datetime
from typing import Any

import pytest
from clusterra_contracts.identity import now
from clusterra_gateway.templates.schedule_records import SCHEDULES
from clusterra_gateway.templates.table import TEMPLATES
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.store import Update
from staged_files import staging_over
from template_jobs import asked, ended, missing_of_example, output

TRIED = ("shell", "python-venv", "cluster-benchmark")
"""`make test-software` tries more, on workers that have more programs."""


@pytest.mark.parametrize("template_id", TRIED)
async def test_the_example_of_a_template_does_its_work(ada: User, template_id: str) -> None:
    missing = await missing_of_example(ada, template_id)

    assert missing == []


async def test_an_array_runs_once_for_each_row(ada: User) -> None:
    body = {
        "template_id": "array-csv",
        "inputs": {"rows": 'sample,size\n"a, 1",10\n$(id),20\n'},
        "params": {"commands": 'echo "[$ARRAY_ROW_SAMPLE] [$ARRAY_ROW_SIZE]"; wc -l < "$CLUSTERRA_ARRAY_MANIFEST"'},
    }

    submitted = await asked(ada, "POST", f"/v1/clusters/{ada.cluster}/jobs/submit", body, status=201)
    tasks = [f"{submitted['job_id']}_{number}" for number in (1, 2)]
    states = await asyncio.gather(*(ended(ada, task) for task in tasks))

    said = [await output(ada, task) for task in tasks]
    assert states == ["COMPLETED", "COMPLETED"], said
    assert said == ["[a, 1] [10]\n3\n", "[$(id)] [20]\n3\n"]


async def ended_run(ada: User, run_id: str) -> Any:
    """A run after its end."""
    place = f"/v1/clusters/{ada.cluster}/runs/{run_id}"
    seen: list[Any] = []

    async def is_over() -> bool:
        seen[:] = [await asked(ada, "GET", place)]
        return seen[0]["state"] in {"completed", "failed", "cancelled"}

    await until(is_over, seconds=240, what=f"the end of run {run_id}")
    return seen[0]


async def test_the_steps_of_a_run_may_be_templates(ada: User) -> None:
    steps = [
        {"step_id": step, "template_id": "shell", "params": {"commands": f"echo this is {step}"}}
        for step in ("first", "second")
    ]

    started = await asked(
        ada, "POST", f"/v1/clusters/{ada.cluster}/runs", {"run_name": "two", "steps": steps}, status=201
    )
    run = await ended_run(ada, started["run_id"])

    said = [await output(ada, step["job_id"]) for step in run["steps"]]
    assert run["state"] == "completed", run
    assert ["this is first" in said[0], "this is second" in said[1]] == [True, True], said


async def test_a_workflow_hands_its_files_on(ada: User) -> None:
    launched = await asked(ada, "POST", "/v1/launchables/benchmark-report/submit", {}, status=201)

    run = await ended_run(ada, launched["run_id"])

    said = await output(ada, run["steps"][-1]["job_id"])
    assert run["state"] == "completed", (run, said)
    assert "report done" in said
    assert said.count("processor") == 2, said


async def test_a_schedule_that_is_due_is_submitted_and_its_files_are_staged(
    lab: Stack, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick = now().replace(second=0, microsecond=0)
    wanted = {
        "name": "hourly",
        "template_id": "cluster-benchmark",
        "cron": f"{tick.minute} * * * *",
        "params": {"size_mib": 1, "minutes": 5, "results_to": "outputs/scheduled"},
    }
    schedule = await asked(ada, "POST", "/v1/schedules", wanted, status=201)
    await becomes_due(lab, schedule["id"], tick, monkeypatch)
    seen: list[dict[str, Any]] = []

    async def is_submitted() -> bool:
        seen[:] = [await asked(ada, "GET", f"/v1/schedules/{schedule['id']}")]
        return seen[0]["last_job"] is not None

    await until(is_submitted, seconds=180, what="the submit of the schedule", every=0.2)
    staging = await staging_over(lab, ada, seen[0]["last_job"])
    job = await asked(ada, "GET", f"/v1/clusters/{ada.cluster}/jobs/{seen[0]['last_job']}")

    assert seen[0]["last_outcome"] == "submitted"
    assert datetime.fromisoformat(seen[0]["last_tick"]) == tick
    assert (job["state"], staging["state"], staging["files"]) == ("COMPLETED", "done", 1), staging


async def becomes_due(lab: Stack, schedule_id: str, tick: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a schedule wait for a tick that has come, as if it had been made an hour ago."""
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)
    key = Key(SCHEDULES, f"{lab.cluster.tenant}#{schedule_id}")
    async with DynamoDBStore(table_prefix="clusterra-") as store:
        await store.write(Update(TEMPLATES, key, set={"next_tick": tick.isoformat()}))
