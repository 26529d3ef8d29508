"""Whether a submit asks for a held job: by the job's `hold`, or by an `#SBATCH` line such as a template writes."""

from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_sbatch.parsing import Directive, scan


def asks_for_hold(script: str, job: JobDescription) -> bool:
    """Whether the job is to be held after its submit. The job's own field wins over the script."""
    if job.hold is not None:
        return job.hold
    return any(isinstance(each, Directive) and each.option.long == "hold" for each in scan(script))
