"""A run on real Slurm: a step fails, what depends on it is cancelled, and the run is resumed from there."""

from typing import Any

from clusterra_contracts.events import RunFact
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User

JOB = {"environment": ["PATH=/usr/bin:/bin"], "memory_per_cpu": 512}


async def read(ada: User, run_id: str) -> dict[str, Any]:
    async with ada.session.get(f"/v1/clusters/{ada.cluster}/runs/{run_id}") as answer:
        assert answer.status == 200, await answer.text()
        run: dict[str, Any] = await answer.json()
        return run


async def ended(ada: User, run_id: str) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    async def is_over() -> bool:
        seen[:] = [await read(ada, run_id)]
        return seen[0]["state"] in {"completed", "failed", "cancelled"}

    await until(is_over, seconds=180, what="the end of the run")
    return seen[0]


async def told(ada: User, run_id: str, kinds: list[str]) -> list[RunFact]:
    """The facts of a run in the archive, once there are as many as these kinds, which they must have."""

    async def facts() -> list[RunFact]:
        events = sorted(await ada.history("run.*"), key=lambda event: event.time)
        return [each.data for each in events if each.subject == run_id and isinstance(each.data, RunFact)]

    async def are_there() -> bool:
        return len(await facts()) >= len(kinds)

    await until(are_there, seconds=180, what="the events of the run", every=0.2)
    found = await facts()
    assert [fact.kind for fact in found] == kinds
    return found


def step(step_id: str, command: str) -> dict[str, Any]:
    return {"step_id": step_id, "script": f"#!/bin/sh\n{command}\n", "job": JOB}


async def test_a_run_is_resumed_from_its_failed_step(ada: User) -> None:
    marker = "$SLURM_SUBMIT_DIR/mended-$SLURM_JOB_NAME"
    steps = [
        step("get", "echo one"),
        step("align", f"test -e {marker} || {{ touch {marker}; exit 3; }}"),
        step("report", "echo three"),
    ]
    for each in steps:
        each["job"] = JOB | {"name": "run-resumed"}
    async with ada.session.post(
        f"/v1/clusters/{ada.cluster}/runs", json={"run_name": "night", "steps": steps}
    ) as answer:
        assert answer.status == 201, await answer.text()
        run = await answer.json()

    failed = await ended(ada, run["run_id"])
    assert [each["state"] for each in failed["steps"]] == ["completed", "failed", "cancelled"], failed
    assert [each["job_state"] for each in failed["steps"]] == ["COMPLETED", "FAILED", "CANCELLED"]

    async with ada.session.post(f"/v1/clusters/{ada.cluster}/runs/{run['run_id']}/resume") as answer:
        assert answer.status == 202, await answer.text()

    completed = await ended(ada, run["run_id"])
    assert completed["state"] == "completed", completed
    assert [each["attempt"] for each in completed["steps"]] == [1, 2, 2]
    assert completed["steps"][0]["job_id"] == run["steps"][0]["job_id"]
    kinds = ["run.started", "run.failed", "run.resumed", "run.completed"]
    facts = await told(ada, run["run_id"], kinds)
    assert [(fact.steps, fact.failed_step) for fact in facts] == [
        ({}, ""),
        ({"completed": 1, "failed": 1, "cancelled": 1}, "align"),
        ({}, ""),
        ({"completed": 3}, ""),
    ]


async def test_a_cancelled_run_ends_its_jobs(ada: User) -> None:
    steps = [step("wait", "sleep 600"), step("after", "true")]
    async with ada.session.post(
        f"/v1/clusters/{ada.cluster}/runs", json={"run_name": "long", "steps": steps}
    ) as answer:
        run = await answer.json()

    async with ada.session.delete(f"/v1/clusters/{ada.cluster}/runs/{run['run_id']}") as answer:
        assert answer.status == 202, await answer.text()

    # Before anybody reads the run.
    await told(ada, run["run_id"], ["run.started", "run.cancelled"])
    over = await ended(ada, run["run_id"])
    assert [each["state"] for each in over["steps"]] == ["cancelled", "cancelled"]
    assert [each["job_state"] for each in over["steps"]] == ["CANCELLED", "CANCELLED"]
