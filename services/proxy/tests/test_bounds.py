"""Jobs that no Slurm could take are invalid before anything is sent, and say why."""

from datetime import UTC, datetime
from typing import Any

import pytest
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_proxy.admission.bounds import MAX_ITEMS, MAX_LIST_BYTES, MAX_NUMBER, check_bounds
from clusterra_proxy.slurmrestd.answers import States
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import Invalid
from clusterra_sbatch.applying import apply
from clusterra_sbatch.problems import InvalidScript

DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time_limit", {"set": True, "number": 2**64}),
        ("memory_per_node", MAX_NUMBER + 1),
        ("nice", -(2**70)),
        ("nodes", "1-99999999999999"),
        ("nodes", DIGITS),
        ("nodes", "4294967294"),
        ("environment", ["A=b"] * (MAX_ITEMS + 1)),
        ("environment", ["A=" + "é" * (MAX_LIST_BYTES // 2)]),
        ("argv", ["a"] * (MAX_ITEMS + 1)),
        ("tasks", 0),
        ("tasks_per_node", 0),
        ("cpus_per_task", 0),
        ("name", "a\0b"),
        ("environment", ["A=1\0B"]),
    ],
)
def test_a_job_beyond_a_bound_is_invalid_and_names_the_field(field: str, value: Any) -> None:
    job = JobDescription.model_validate({"environment": ["PATH=/bin"], field: value})

    with pytest.raises(Invalid, match=f"{field}: ") as raised:
        check_bounds(job)

    assert raised.value.error.hint


def test_a_job_at_the_bounds_is_valid() -> None:
    job = {"environment": ["A=b"] * MAX_ITEMS, "nodes": "1-4294967293", "time_limit": MAX_NUMBER, "argv": ["7" * 5000]}
    check_bounds(JobDescription.model_validate(job))


@pytest.mark.parametrize(
    "option",
    [
        *(f"--{name}={DIGITS}" for name in ("nodes", "time", "mem", "nice", "ntasks", "gpus", "array")),
        f"--begin=uts{DIGITS}",
        f"--begin=now+{DIGITS}",
        "--begin=now+9999999999week",
        f"--deadline={DIGITS}",
        f"--nodes=1-{DIGITS}",
    ],
)
def test_no_number_of_a_script_breaks_the_proxy(option: str) -> None:
    job = JobDescription(environment=("PATH=/bin",))
    try:
        check_bounds(apply(f"#!/bin/sh\n#SBATCH {option}\n", job, now=datetime.now(UTC)).job)
    except (Invalid, InvalidScript):
        return
    assert option.startswith(("--gpus", "--array"))


async def test_what_cannot_be_encoded_is_not_sent() -> None:
    async with Slurmrestd("http://127.0.0.1:1") as slurmrestd:
        with pytest.raises(Invalid, match="cannot be sent"):
            await slurmrestd.write("POST", "slurm/v0.0.44/job/submit", "t", States, entity="job", body={"a": 2**64})
