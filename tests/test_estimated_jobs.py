"""What an estimate makes of a submission is what the planner later makes of Slurm's record of the same job."""

import shlex
from datetime import datetime

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_proxy.requests.prepare import pending_of
from clusterra_sbatch.applying import apply
from clusterra_scaler.planner.requests.demand import Demand, startable
from job_cases import CASES, UID, JobCase
from job_site import fits

ADA = SlurmUser(name="ada", uid=UID, gid=UID)
AT = datetime.fromisoformat("2026-03-01T12:00:00Z")
DEFAULT_MEMORY = 1024
"""The DefMemPerCPU of the recorded Slurm, which an estimate does not know."""
NOT_FORESEEN = {
    "qos without jobs": "Slurm alone knows the limits of a QOS",
    "account without jobs": "Slurm alone knows the limits of an account",
    "licences taken": "Slurm alone knows its licences",
    "qos used up": "Slurm alone knows the limits of a QOS",
    "partition that is down": "Slurm alone knows the state of a partition",
    "held by an administrator": "it is held after the submit",
    "extra": "a script cannot have it",
    "extra that the node has not": "a script cannot have it",
    "throttled array": "other tasks run already",
}
"""Cases that no estimate tells of, and why: mostly, only Slurm's answer to a submit does."""


def demands_of(case: JobCase) -> list[Demand]:
    """The demand of a case's options in a script."""
    words = shlex.split(case.options.replace("{fill}", "7"))
    quoted = " ".join(f'"{word}"' for word in words)
    script = f"#!/bin/sh\n#SBATCH {quoted}\n" if words else "#!/bin/sh\n"
    job = apply(script, JobDescription(environment=("A=b",)), now=AT).job
    pending = pending_of(job, ADA, "main", AT)
    if pending.memory_per_node_mib is None and not (pending.memory_per_cpu_mib or pending.memory_per_gpu_mib):
        pending = pending.model_copy(update={"memory_per_cpu_mib": DEFAULT_MEMORY})
    return startable((pending,), "main", AT, fits)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not (case.refused or case.components or case.name in NOT_FORESEEN)],
    ids=lambda case: case.name,
)
def test_a_submission_becomes_the_demand_of_its_job(case: JobCase) -> None:
    found = demands_of(case)

    assert [(demand.count, demand.parts) for demand in found] == ([(case.count, case.parts)] if case.parts else [])
