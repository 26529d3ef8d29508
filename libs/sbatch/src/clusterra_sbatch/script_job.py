"""A job as its script and its request describe it together."""

from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import JobDescription
from pydantic import ConfigDict


class ScriptJob(JobDescription, FurtherFields):
    """A job with all the fields that slurmrestd gets, but for those that Clusterra sets itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")
