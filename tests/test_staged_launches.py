"""Launches of templates, runs and schedules whose files are staged, on the whole lab."""

import secrets
from functools import partial
from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_gateway.files.paths import FilePath, KeySpace
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.submission.staged_files import Input, Output, StagingPlan
from clusterra_gateway.submits.held_submits import staging_id
from clusterra_gateway.workflows.transitions import submit_key
from clusterra_gateway.workflows.workflow import Workflow, WorkflowJob, WorkflowJobSpec
from clusterra_gateway.workflows.workflow_records import WorkflowRecords
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.nats import bus
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.outbox import Outbox
from session_client import asked, published
from staged_files import downloaded, staging_over, uploaded

SORTED = """\
format: clusterra/1
id: sorted-lines
name: Sorted lines
description: Sorts the lines of a file.
tools: [sort]
kind: batch
runtime: {kind: host_system, binary: sort}
inputs:
  - {key: text, role: generic_path, required: true}
parameters:
  - {key: word, widget: text, default: sorted}
sbatch: |
  #SBATCH --mem=512M
outputs: {dir: results}
staging:
  current_working_directory: "sorted-{{ ctx.run_id }}"
  stage_in:
    - {source: "{{ inputs.text }}", destination: in/text.txt}
  stage_out:
    - {source: "{{ outputs.dir }}/**", destination: "outputs/{{ params.word }}/"}
script: |
  #!/bin/bash
  set -eu
  mkdir results
  sort in/text.txt > results/text.txt
"""


JOB = {"environment": ["PATH=/usr/bin:/bin"], "memory_per_cpu": 512}


def launch(template: str) -> str:
    return f"/v1/launchables/{template}/submit"


async def test_a_launched_template_finds_its_inputs_and_its_outputs_are_in_the_bucket(lab: Stack, ada: User) -> None:
    await uploaded(lab, ada, "data/launch/b a.txt", b"b\na\n")
    values = {"text": "data/launch/b a.txt", "word": "launched"}

    async with published(ada, SORTED) as template:
        shown = await asked(ada, "POST", f"/v1/launchables/{template}/render", values)
        launched = await asked(ada, "POST", launch(template), values, status=201)
        missing = await asked(ada, "POST", launch(template), values | {"text": "data/none.txt"}, status=400)
        pattern = await asked(ada, "POST", launch(template), values | {"word": "**"}, status=400)
        elsewhere = await asked(ada, "POST", launch(template), values | {"text": "elsewhere/x"}, status=400)
    staging = await staging_over(lab, ada, launched["job_id"])

    assert shown["steps"][0]["staging"]["stage_out"] == [{"source": "results/**", "destination": "outputs/launched/"}]
    assert (staging["state"], staging["stage_in"]["files"], staging["stage_out"]["files"]) == ("done", 1, 1), staging
    assert await downloaded(lab, ada, "outputs/launched/text.txt") == b"a\nb\n"
    assert "there is no file data/none.txt" in missing["detail"]
    assert "stands in a path" in pattern["detail"]
    assert "there is no such folder" in elsewhere["detail"]


async def test_the_catalogue_copies_the_figures_of_a_benchmark_where_its_person_wants_them(
    lab: Stack, ada: User
) -> None:
    small: dict[str, Any] = {"size_mib": 4, "minutes": 5}

    plain = await asked(ada, "POST", launch("cluster-benchmark"), small, status=201)
    copied = await asked(
        ada, "POST", launch("cluster-benchmark"), small | {"results_to": "outputs/benchmarks/"}, status=201
    )
    staging = await staging_over(lab, ada, copied["job_id"])
    run_id = copied["output_dir"].removeprefix("benchmark-")
    figures = await downloaded(lab, ada, f"outputs/benchmarks/{run_id}/figures.tsv")

    assert (staging["state"], staging["stage_in"]) == ("done", None), staging
    assert figures is not None
    assert [line.split(b"\t")[0] for line in figures.splitlines()] == [b"processor", b"memory", b"write", b"read"]
    assert (await asked(ada, "GET", f"/v1/clusters/{ada.cluster}/jobs/{plain['job_id']}"))["staging"] is None


def step(step_id: str, script: str, folder: str, **staged: Any) -> dict[str, Any]:
    job = JOB | {"name": step_id, "current_working_directory": folder}
    return {"step_id": step_id, "script": f"#!/bin/sh\n{script}\n", "job": job, **staged}


def lines_of(folder: str) -> list[dict[str, Any]]:
    """Two steps that share a working directory: the second reads what the first made."""
    source = [{"source": "data/steps/lines.txt", "destination": "lines.txt"}]
    return [
        step("sort", "sort lines.txt >sorted.txt", folder, stage_in=source),
        step(
            "count",
            "wc -l <sorted.txt >count.txt",
            folder,
            stage_out=[{"source": "*.txt", "destination": f"outputs/{folder}"}],
        ),
    ]


async def started(ada: User, *steps: dict[str, Any], status: int = 201) -> Any:
    body = {"run_name": "staged", "steps": steps}
    return await asked(ada, "POST", f"/v1/clusters/{ada.cluster}/runs", body, status=status)


async def ended(ada: User, run_id: str) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    async def over() -> bool:
        seen[:] = [await asked(ada, "GET", f"/v1/clusters/{ada.cluster}/runs/{run_id}")]
        return seen[0]["state"] in {"completed", "failed", "cancelled"}

    await until(over, seconds=180, every=0.3, what=f"the end of run {run_id}")
    return seen[0]


async def test_the_steps_of_a_run_stage_their_files(lab: Stack, ada: User) -> None:
    await uploaded(lab, ada, "data/steps/lines.txt", b"b\na\n")
    sort, count = lines_of("staged-steps")
    figures = {
        "step_id": "figures",
        "template_id": "cluster-benchmark",
        "params": {"size_mib": 1, "minutes": 5, "results_to": "outputs/figures"},
        "depends_on": [],
    }
    none = [{"source": "data/none.txt", "destination": "x"}]

    refused = await started(ada, sort, count | {"stage_in": none}, status=400)
    run = await ended(ada, (await started(ada, sort, count, figures))["run_id"])
    jobs = {each["step_id"]: each["job_id"] for each in run["steps"]}
    staged = {name: await staging_over(lab, ada, job_id) for name, job_id in jobs.items()}

    assert [each["pointer"] for each in refused["errors"]] == ["#/steps/1/stage_in/0/source"]
    assert run["state"] == "completed", run
    assert {name: (each["state"], each["files"]) for name, each in staged.items()} == {
        "sort": ("done", 1),
        "count": ("done", 3),
        "figures": ("done", 1),
    }, staged
    assert await downloaded(lab, ada, "outputs/staged-steps/sorted.txt") == b"a\nb\n"
    assert await downloaded(lab, ada, "outputs/staged-steps/count.txt") == b"2\n"


async def test_a_step_whose_gateway_died_at_its_submit_is_submitted_once_and_staged(
    lab: Stack, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    await uploaded(lab, ada, "data/steps/lines.txt", b"b\na\n")
    async with ada.session.get(f"/v1/clusters/{ada.cluster}/files", params={"path": "data/steps"}) as answer:
        page = await answer.json()
    (known,) = page["files"]
    file, member = FilePath("data", "steps/lines.txt"), page["owner"]["id"]
    source = Input(
        source=file.shown,
        key=KeySpace(lab.cluster, member).key(file),
        destination="x",
        size=known["size"],
        etag=known["etag"],
    )
    plan = StagingPlan(folder="died-step", inputs=(source,), outputs=(Output(source="y", destination="outputs/step"),))
    job = JobDescription.model_validate(JOB | {"name": "died-step", "current_working_directory": "died-step"})
    # As the gateway stores them before it submits the job of the step.
    user = SlurmUser(name=ada.profile.name, uid=ada.profile.uid, gid=ada.profile.uid)
    at = now()
    submitting = WorkflowJob(step_id="sort", state="submitting", intended_at=at)
    run = Workflow(
        id=secrets.token_hex(16),
        name="died",
        member=member,
        user=user,
        created_at=at,
        digest="",
        steps=(submitting,),
    )
    key = submit_key(run, 0)
    staging = Staging(
        id=staging_id(lab.cluster, member, key),
        member=member,
        user=user,
        job_name=job.name,
        key=key,
        digest=key,
        created_at=at,
        progressed_at=at,
        **dict(plan),
    )
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)

    async with (
        DynamoDBStore(table_prefix="clusterra-") as store,
        Outbox(store, partial(bus.store, lab.bus)) as outbox,
    ):
        assert await StagingRecords(store).create(lab.cluster, staging)
        work = WorkflowJobSpec(script="#!/bin/sh\nsort x >y\n", job=job, staging=plan)
        assert await WorkflowRecords(store, outbox).create(lab.cluster, run, (work,))
    ended_run = await ended(ada, run.id)
    staged = await staging_over(lab, ada, ended_run["steps"][0]["job_id"])
    jobs = await asked(ada, "GET", f"/v1/clusters/{ada.cluster}/jobs?name=died-step")

    assert ended_run["state"] == "completed", ended_run
    assert (staged["state"], staged["files"]) == ("done", 2), staged
    assert await downloaded(lab, ada, "outputs/step/y") == b"a\nb\n"
    assert [each["job_id"] for each in jobs["jobs"]] == [ended_run["steps"][0]["job_id"]]
