"""Scripts from public reports about other clients of Slurm, which stand beside this repository: their right values.

Each file has the request and, in words, what was measured on sbatch 26.05. Here is what that means for the job.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_sbatch.applying import apply
from clusterra_sbatch.problems import InvalidScript

CASES = Path(__file__).parents[3].parent / "shared" / "cases" / "sbatch"
NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
ENVIRONMENT = ("PATH=/usr/bin:/bin",)


@dataclass(frozen=True)
class Expected:
    """What the job of a case has, or why the case is refused."""

    fields: dict[str, Any] | None = None
    refused: str = ""


EXPECTED = {
    "01-directive-without-space": Expected({"time_limit": 5, "name": "nospace"}),
    "02-nbsp-after-sbatch": Expected(refused="line 2 of the script"),
    "03-nbsp-line-before-directive": Expected({}),
    "05-pbs-lines": Expected({"time_limit": 5, "name": "pbsname", "nodes": "2", "tasks": 2}),
    "06-trailing-backslash": Expected({"time_limit": 5, "tasks": 2}),
    "07-export-quoted-comma": Expected({"time_limit": 2, "environment": ("FOO='a,b'", "BAR=c")}),
    "09-time-unlimited": Expected({}),
    "10-begin-clock-time": Expected({"begin_time": int(datetime(2026, 11, 26, 16, 0, tzinfo=UTC).timestamp())}),
    "12-empty-values": Expected({"time_limit": 5}),
    "14-tasks-per-node-alias": Expected({"tasks_per_node": 2, "nodes": "2"}),
    "17-nodes-reversed-502": Expected(refused="line 2 of the script: --nodes=4-1"),
}
NOT_READING = {
    "19-nul-in-text": "the gateway refuses NUL in a request",
    "20-output-user-and-node": "about the output of a job",
    "21-output-file-cannot-be-opened": "about the end of a job",
    "22-node-fail-signal": "about the end of a job",
    "23-why-of-suspended": "about a job's state",
}


@pytest.mark.skipif(not CASES.is_dir(), reason=f"the cases are kept beside the repository, in {CASES.name}")
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_reported_script_is_read_as_sbatch_reads_it(name: str) -> None:
    expected = EXPECTED[name]
    script = json.loads((CASES / f"{name}.json").read_text())["request"]["script"]
    job = JobDescription(environment=ENVIRONMENT)

    if expected.fields is None:
        with pytest.raises(InvalidScript) as refused:
            apply(script, job, now=NOW)
        assert expected.refused in str(refused.value)
    else:
        found = apply(script, job, now=NOW).job.model_dump(exclude_defaults=True)
        assert found == {"environment": ENVIRONMENT} | expected.fields


@pytest.mark.skipif(not CASES.is_dir(), reason=f"the cases are kept beside the repository, in {CASES.name}")
def test_every_case_is_known_here() -> None:
    names = {path.stem for path in CASES.glob("*.json")}

    assert names == EXPECTED.keys() | NOT_READING.keys()
