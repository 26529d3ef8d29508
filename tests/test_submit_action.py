"""The action for GitHub's workflows: its own steps, run with bash, on the lab."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import composite_action
import pytest
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from fresh_machine import fresh_environment

FOLDER = Path(__file__).parents[1] / "actions" / "submit"
HOSTILE = "a'b\";$(touch pwned)`touch pwned`"


@pytest.fixture
async def inputs(lab: Stack, ada: User) -> AsyncIterator[dict[str, str]]:
    """The inputs of a person with a token."""
    async with ada.api_token("workflow") as token:
        yield {"url": lab.gateway_url, "token": token, "cluster": ada.cluster}


async def test_a_job_of_a_workflow_ends_the_step_with_its_exit_code(inputs: dict[str, str], tmp_path: Path) -> None:
    workspace, temporary = tmp_path / "checkout", tmp_path / "runner"
    workspace.mkdir()
    temporary.mkdir()
    (workspace / "fit.sh").write_text('#!/bin/sh\necho "::add-path::/evil"\necho "$SLURM_JOB_NAME"\nexit 3\n')
    # Whoever can change the checkout must not get the token: none of these is imported.
    for name in ("json", "re", "secrets", "sitecustomize", "venv"):
        (workspace / f"{name}.py").write_text("open('pwned', 'w')\n")
    files = {*workspace.iterdir()}
    given = {**inputs, "script": "fit.sh", "options": f"--time=5\n\n--job-name={HOSTILE}\n"}

    ended = await composite_action.run(FOLDER, given, workspace, temporary, fresh_environment(temporary))

    assert ended.code == 3, ended.log
    assert ended.outputs["job_id"].isdecimal()
    assert ended.outputs["state"] == "FAILED"
    assert re.fullmatch(r"[0-9.]*", ended.outputs["cost"])
    assert {*workspace.iterdir()} == files
    assert f"\n{HOSTILE}\n" in ended.log
    # Only the line that masks the token has it.
    assert [line for line in ended.log.splitlines() if inputs["token"] in line] == [f"::add-mask::{inputs['token']}"]
    stopped, resumed = re.search(r"::stop-commands::(\w{64})", ended.log), ended.log.index("::endgroup::")
    assert stopped is not None
    assert stopped.end() < ended.log.index("::add-path::") < ended.log.index(f"\n::{stopped[1]}::") < resumed


async def test_a_submit_that_is_refused_fails_the_step(inputs: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "fit.sh").write_text("#!/bin/sh\ntrue\n")

    given = {**inputs, "script": "fit.sh", "options": "--time=never"}
    ended = await composite_action.run(FOLDER, given, tmp_path, tmp_path, fresh_environment(tmp_path))

    assert ended.code == 6, ended.log
    assert "--time=never" in ended.log
    assert ended.outputs == {"job_id": "", "state": "", "cost": ""}
