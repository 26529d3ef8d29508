"""The data parser versions of slurmrestd that we speak. Callers see the newest version's shape only.

Each class is one version and inherits the newer one, so that it holds just what differs in the fields we read or
send; its docstring lists the differences that were considered and need nothing.
"""

from typing import Any

from pydantic import model_validator

from clusterra_proxy.slurmrestd.answers import Jobs
from clusterra_proxy.slurmrestd.records import JobRecord, NullableList


class V45:
    """v0.0.45, of Slurm 26.05.

    Its job records do not tell who must have a node alone: `shared` is always empty, and the `exclusive` that its
    description names in its place is not there.
    `DELETE node/` and `POST jobs/requeue` are as in v0.0.44 for what we use. Requeueing one job is
    `GET job/{id}/requeue`, which changes something: no GET may be taken for harmless by its method.
    """

    name = "v0.0.45"
    jobs: type[Jobs] = Jobs

    @classmethod
    def slurm(cls, path: str) -> str:
        """The path of a question to slurmctld."""
        return f"/slurm/{cls.name}/{path}"

    @classmethod
    def slurmdb(cls, path: str) -> str:
        """The path of a question to slurmdbd."""
        return f"/slurmdb/{cls.name}/{path}"


class V44(V45):
    """v0.0.44, of Slurm 25.11.

    Considered: no `jobs/requeue`; no `container_type`, `memory_update_*` and `cores_per_socket` in jobs; no
    `suspend_time` in nodes; `power` and `external_sensors` still there; other words in
    `job_resources.select_type`; accounting without `sluid`, `exclusive` and `oversubscribe`.
    """

    name = "v0.0.44"


class V43(V44):
    """v0.0.43, of Slurm 25.05.

    Considered: no `submit_line` and `step_id` in jobs; fewer job flags and node states (`BLOCKED`, `EXTERNAL`);
    `SORT` in `memory_binding_type`; a user's default has no `qos`.
    """

    name = "v0.0.43"


class ExpandedOutputJob(JobRecord):
    """A job whose `standard_output` and `standard_error` come with Slurm's `%` patterns already filled in."""

    @model_validator(mode="before")
    @classmethod
    def _expanded(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        given = {"stdout_expanded": values.get("standard_output"), "stderr_expanded": values.get("standard_error")}
        return given | values


class ExpandedOutputJobs(Jobs):
    """`GET jobs/` and `GET job/{id}` of such jobs."""

    jobs: NullableList[ExpandedOutputJob] = ()


class V42(V43):
    """v0.0.42, of Slurm 24.11.

    Jobs have no `stdout_expanded` and `stderr_expanded`: `standard_output` and `standard_error` are expanded.
    Considered: no `licenses_allocated` and `segment_size` in jobs; no `topology` and `cert_flags` in nodes;
    accounting without `reservation.requested`.
    """

    name = "v0.0.42"
    jobs = ExpandedOutputJobs


type Version = type[V45]

VERSIONS: tuple[Version, ...] = (V44, V45, V43, V42)
"""The first one that a slurmrestd serves is spoken with it: the newest, but v0.0.45 only where nothing else tells more
(see V45)."""
