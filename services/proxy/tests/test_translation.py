"""What is told of a submission before Slurm is asked: hints for lines of the script, warnings about lost outputs."""

from datetime import UTC, datetime

import pytest
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_proxy.requests.translation import outputs_outside
from clusterra_sbatch.applying import apply
from clusterra_sbatch.problems import InvalidScript

NOW = datetime(2026, 11, 24, tzinfo=UTC)
JOB = JobDescription(environment=("PATH=/bin",))


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("--tiem=5", "did you mean --time?"),
        ("--Job-Name=x", "did you mean --job-name?"),
        ("--qqqqqqqq", "remove the option"),
        ("--time=1h", "correct the value of --time on line 2"),
        ("--mem=4X", "correct the value of --mem on line 2"),
        ("-n 0", "correct the value of --ntasks on line 2"),
        ("--cpus-per-task", "write it as --cpus-per-task=VALUE"),
        ("--job-name='x", "close the quote"),
        ("--wait", "remove the line from the script"),
    ],
)
def test_a_wrong_line_has_a_hint_of_its_kind(line: str, hint: str) -> None:
    with pytest.raises(InvalidScript) as invalid:
        apply(f"#!/bin/sh\n#SBATCH {line}\n", JOB, now=NOW)

    assert hint in invalid.value.hint


@pytest.mark.parametrize(
    ("script", "directory", "lost"),
    [
        ("-o out.txt", "/shared/ada", []),
        ("-o /shared/x/%j.out -e /dev/null", "/shared", []),
        ("-o /tmp/%j.out", "/shared", ["standard_output is /tmp/%j.out"]),
        ("-o ../../tmp/x -e /shared2/err", "/shared/ada", ["standard_output is /tmp/x", "standard_error is /shared2/"]),
        ("-o out.txt", "/tmp", ["standard_output is /tmp/out.txt"]),
        ("", "/tmp", []),
    ],
)
def test_an_output_that_only_its_worker_has_is_warned_of(script: str, directory: str, lost: list[str]) -> None:
    job = apply(f"#!/bin/sh\n#SBATCH {script}\n", JOB, now=NOW).job

    warnings = outputs_outside(job, directory, "/shared")

    assert len(warnings) == len(lost)
    assert all(warning.startswith(start) for warning, start in zip(warnings, lost, strict=True))
