"""Schemathesis, a client made by others, on the whole running product: no 5xx, and every answer as documented.

`make test-openapi CASES=20000` sends that many generated requests at least, and has Schemathesis vary each parameter by
its schema, which are 10,000 requests more. They pause the cluster, change its agent's keys, submit jobs, and fill lists
up to their limits: so they go to a lab of their own.
"""

import asyncio
import json
import math
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from authority_stand_in import signing
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack

SHORT = 300
CASES = int(os.environ.get("OPENAPI_CASES", str(SHORT)))
ENDING = (
    "auth_logout",
    "auth_callback",
    "auth_callback_redirect",
    "auth_login",
    "members_change",
    "memberships_choose",
    "clusters_delete",
)
"""Operations that end or replace the session of the run, take its role, or delete what it runs on."""
OPERATOR = "operator"
"""The role of operations that no member may call: `test_schemathesis.py` sends them with an operator's token."""
SCIM = "scim"
"""The scope of operations that only a directory's key may call: `test_schemathesis.py` sends them with such a key."""
LEFT_OUT = (
    # Takes a spoilt token beside a valid cookie for a hole. `test_credential_matrix.py` covers it.
    "ignored_auth",
    # A cursor must come from an earlier answer, a script must name its interpreter: no schema says so.
    "positive_data_acceptance",
    # Below a cluster's path of slurmrestd every operation has an answer, in slurmrestd's shape.
    "allow_header_conformance",
    # To delete a job, a session or a run is to cancel it, and what is known of it stays.
    "use_after_free",
)
"""Checks of Schemathesis that do not hold here."""
TEMPLATE = """\
format: clusterra/1
id: seen-{number}
name: Seen
description: Prints.
tools: [echo]
kind: batch
runtime: {{kind: host_system, binary: echo}}
inputs: []
parameters: []
sbatch: |
  #SBATCH --time=5
outputs: {{dir: .}}
script: |
  #!/bin/sh
  echo seen
"""
UPLOADED = "data/seen"
"""The file of the uploads that exist: operations on one name its path, too."""
LIMITS = ("CLUSTERRA_CHANGES_PER_MINUTE", "CLUSTERRA_READS_PER_MINUTE")
HOOKS = Path(__file__).with_name("openapi_hooks.py")
CONFIGURATION = Path(__file__).with_name("openapi.toml")


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A lab that no other test uses, in which no rate limit refuses a request in place of what is behind it."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    options = LabOptions(environment=dict.fromkeys(LIMITS, "10000000"))
    async with stack(tmp_path_factory.mktemp("openapi-lab"), options) as running, signing(running.bus):
        yield running


async def test_every_answer_of_the_running_api_is_as_documented(lab: Stack, ada: User, tmp_path: Path) -> None:
    existing = await _existing(ada)
    async with ada.session.get("/v1/openapi.json") as answer:
        document = await answer.json()
    tested = [operation for operation in _operations(document) if _may_test(operation)]

    status, output = await _schemathesis(
        lab,
        ada,
        tmp_path,
        existing,
        # In the short form the same ones each time: a run of `make test` finds what its change has broken.
        *(["--seed=1"] if CASES <= SHORT else []),
        f"--max-examples={math.ceil(CASES / len(tested))}",
        f"--phases={'examples,fuzzing,stateful' if CASES <= SHORT else 'examples,coverage,fuzzing,stateful'}",
        *(f"--include-operation-id={operation['operationId']}" for operation in tested),
    )

    assert status == 0, output
    generated = re.search(r"(\d+) generated", output)
    assert generated is not None, output
    # What Schemathesis could not get at: operations that always refused, or to which no link leads.
    print(output.partition(" WARNINGS ")[2].partition(" SUMMARY ")[0])
    print(f"{generated[1]} cases, {len(tested)} operations, no failure")
    assert int(generated[1]) >= CASES


async def _existing(ada: User) -> dict[str, list[str]]:
    """What exists for the run, by the names of path parameters."""

    async def made(path: str, content: object) -> dict[str, Any]:
        async with ada.session.post(path, json=content) as answer:
            assert answer.status == 201, await answer.text()
            shown: dict[str, Any] = await answer.json()
            return shown

    cluster = f"/v1/clusters/{ada.cluster}"
    job = await ada.submit("#!/bin/bash\necho hello\n", {"name": "seen"})
    step = {"step_id": "seen", "script": "#!/bin/sh\ntrue\n", "job": {"environment": ["PATH=/usr/bin:/bin"]}}
    run = await made(f"{cluster}/runs", {"run_name": "seen", "steps": [step]})
    daily = {"name": "seen", "template_id": "shell", "params": {"commands": "true"}, "cron": "0 3 * * *"}
    # Several of what a case may delete.
    schedules = [await made("/v1/schedules", daily | {"name": f"seen {number}"}) for number in range(5)]
    templates = [await made("/v1/templates", {"definition": TEMPLATE.format(number=number)}) for number in range(5)]
    uploads = [await made(f"{cluster}/files/uploads", {"path": UPLOADED, "size": 7}) for _ in range(5)]
    return {
        "cluster_id": [ada.cluster],
        "job_id": [job.job_id],
        "version": ["v0.0.45"],
        "run_id": [run["run_id"]],
        "schedule_id": [each["id"] for each in schedules],
        "template_id": [each["id"] for each in templates],
        "number": ["1"],
        "launchable_id": ["shell"],
        "upload_id": [each["upload_id"] for each in uploads],
        "partition_name": ["main"],
        "path": [UPLOADED],
    }


def _operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for methods in document["paths"].values() for operation in methods.values()]


def _may_test(operation: dict[str, Any]) -> bool:
    streams = any("text/event-stream" in answer.get("content", {}) for answer in operation["responses"].values())
    of_others = operation.get("x-role") == OPERATOR or operation.get("x-scope") == SCIM
    return not streams and not of_others and operation["operationId"] not in ENDING


async def _schemathesis(
    lab: Stack, user: User, folder: Path, existing: dict[str, list[str]], *options: str
) -> tuple[int, str]:
    cookies = "; ".join(f"{cookie.key}={cookie.value}" for cookie in user.session.cookie_jar)
    command = [
        *(
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(CONFIGURATION),
            "run",
            f"{lab.gateway_url}/v1/openapi.json",
        ),
        *("--header", f"Cookie: {cookies}", "--workers=2", "--no-color", "--continue-on-failure"),
        *("--checks=all", f"--exclude-checks={','.join(LEFT_OUT)}", "--request-timeout=60", *options),
    ]
    environment = {
        "SCHEMATHESIS_HOOKS": HOOKS.stem,
        "PYTHONPATH": str(HOOKS.parent),
        "OPENAPI_EXISTING": json.dumps(existing),
    }
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()
