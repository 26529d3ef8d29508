"""The data parser versions of slurmrestd that the proxy speaks. Callers see only the newest version's fields.

Each class is one version. It inherits from the newer version and holds only the differences in fields that the proxy
reads or sends. Its docstring lists the differences that were considered and need no code.
"""

from typing import Any, ClassVar

from pydantic import model_validator

from clusterra_proxy.slurmrestd.answers import Jobs
from clusterra_proxy.slurmrestd.reading.fields import NullableList
from clusterra_proxy.slurmrestd.records import JobRecord


def path_template(path: str) -> str:
    """Return a path without its id: `/slurm/v0.0.45/job/{id}`."""
    folder, _, last = path.rpartition("/")
    return f"{folder}/{{id}}" if folder.endswith(("/job", "/node")) and last != "submit" else path


class V45:
    """v0.0.45, of Slurm 26.05.

    Its job records do not show exclusive jobs: `shared` is always empty, and the `exclusive` field that its
    specification names instead is missing.
    `DELETE node/` and `POST jobs/requeue` are as in v0.0.44 for the proxy's use. `GET job/{id}/requeue` requeues a
    job: a GET is not always free of side effects.
    """

    name = "v0.0.45"
    jobs: type[Jobs] = Jobs
    notes_ended_jobs = True
    """Whether `POST slurmdb/job/{id}` changes a job in accounting."""

    @classmethod
    def slurm(cls, path: str) -> str:
        """Return the path of a slurmctld endpoint."""
        return f"/slurm/{cls.name}/{path}"

    @classmethod
    def slurmdb(cls, path: str) -> str:
        """Return the path of a slurmdbd endpoint."""
        return f"/slurmdb/{cls.name}/{path}"


class V44(V45):
    """v0.0.44, of Slurm 25.11.

    Considered: no `jobs/requeue`; no `container_type`, `memory_update_*` and `cores_per_socket` in jobs; no
    `suspend_time` in nodes; `power` and `external_sensors` still present; other values in
    `job_resources.select_type`; accounting without `sluid`, `exclusive` and `oversubscribe`.
    """

    name = "v0.0.44"


class V43(V44):
    """v0.0.43, of Slurm 25.05.

    Considered: no `submit_line` and `step_id` in jobs; fewer job flags and node states (`BLOCKED`, `EXTERNAL`);
    `SORT` in `memory_binding_type`; a user's default has no `qos`. Jobs in accounting cannot be changed.
    """

    name = "v0.0.43"
    notes_ended_jobs = False


class ExpandedOutputJob(JobRecord):
    """A job record whose `standard_output` and `standard_error` have Slurm's `%` patterns already expanded."""

    @model_validator(mode="before")
    @classmethod
    def _expanded(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        given = {"stdout_expanded": values.get("standard_output"), "stderr_expanded": values.get("standard_error")}
        return given | values


class ExpandedOutputJobs(Jobs):
    """Answer to `GET jobs/` and `GET job/{id}` with such records."""

    RECORD: ClassVar = ExpandedOutputJob

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
"""In order of preference: the first version that a slurmrestd serves is used. v0.0.44 comes before v0.0.45, whose
records lack exclusive jobs (see V45)."""
