"""The work of a small laboratory, which the pictures of the documentation show: jobs, files, a run and a session."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from session_client import asked, place, published, until_ready
from staged_files import uploaded

SESSION = Path(__file__).parents[1] / "session_page.yaml"
FILES = {
    "reads/sample-01.fastq": 48_000,
    "reads/sample-02.fastq": 51_200,
    "reads/sample-03.fastq": 46_700,
    "reference/genome.fa": 220_000,
    "results/alignment-report.html": 9_400,
    "samples.csv": 640,
    "README.md": 320,
}
"""Path in a person's files -> size in bytes."""
TRAINING = """\
for step in 1 2 3 4 5 6 7 8 9; do
  echo "epoch $step  loss 0.$((920 - step * 80))  accuracy 0.$((410 + step * 55))"
done
sleep 3600
"""
FOLDING = (
    "echo 'reading target.fasta: 412 residues'\nsleep 2\necho 'error: no weights in /mnt/efs/models' >&2\nexit 2\n"
)
RUN = "variants-of-sample-01"
JOB: Mapping[str, Any] = {"memory_per_cpu": 256, "time_limit": 120, "current_working_directory": "/mnt/efs"}


def _step(step_id: str, command: str) -> dict[str, Any]:
    return {
        "step_id": step_id,
        "script": f"#!/bin/sh\n{command}\n",
        "job": {**JOB, "name": step_id, "environment": ["PATH=/usr/bin:/bin"]},
    }


async def _submitted(user: User, name: str, script: str, **job: Any) -> str:
    return (await user.submit(f"#!/bin/bash\n{script}\n", {**JOB, "name": name, **job})).job_id


async def _until_states(user: User, wanted: Mapping[str, str]) -> None:
    async def reached() -> bool:
        return all([(await user.job(job)).state.startswith(state) for job, state in wanted.items()])

    await until(reached, seconds=180, what=f"the states {dict(wanted)}", every=0.5)


async def filled(lab: Stack, ada: User, grace: User) -> str:
    """Let both people work. Returns the id of ada's job that trains, when all jobs are where the pictures show them."""
    for path, size in FILES.items():
        await uploaded(lab, ada, f"data/{path}", b"ACGT" * (size // 4))
    quality = await _submitted(grace, "check-quality", "echo '3 of 3 samples passed'\nsleep 6")
    training = await _submitted(ada, "train-resnet", TRAINING, cpus_per_task=2)
    await _submitted(ada, "align-reads", "sleep $((SLURM_ARRAY_TASK_ID * 4))\nsleep 3600 &\nwait", array="1-8%3")
    failed = await _submitted(ada, "fold-protein", FOLDING)
    rendering = await _submitted(grace, "render-frames", "sleep 3600", cpus_per_task=2)
    simulation = await _submitted(grace, "simulate-flow", "sleep 3600", cpus_per_task=2, hold=True)
    await _submitted(grace, "plot-flow", "true", dependency=f"afterok:{simulation}")
    steps = [_step("trim-reads", "sleep 1"), _step("call-variants", "sleep 3600"), _step("write-report", "true")]
    run = {"run_name": RUN, "steps": steps}
    await asked(ada, "POST", f"/v1/clusters/{ada.cluster}/runs", run, status=201)
    stopped = await _submitted(grace, "tune-parameters", "sleep 3600", hold=True)
    await grace.cancel(stopped)
    await _until_states(ada, {training: "RUNNING", failed: "FAILED"})
    await _until_states(grace, {quality: "COMPLETED", rendering: "RUNNING", stopped: "CANCELLED"})
    return training


@asynccontextmanager
async def session_started(ada: User) -> AsyncIterator[None]:
    """A session of a template of ada's, which can be opened until the block ends."""
    definition = (
        SESSION.read_text().replace("id: small-page", "id: notebook").replace("name: Small page", "name: Notebook")
    )
    async with published(ada, definition) as template:
        started = await asked(ada, "POST", place(ada), {"template_id": template}, status=201)
        await until_ready(ada, started["job_id"])
        yield
        await asked(ada, "DELETE", place(ada, started["job_id"]), status=204)
