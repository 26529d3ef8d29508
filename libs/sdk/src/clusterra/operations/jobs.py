"""Submit, list, read, explain and change jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clusterra.exchange import Request, Steps, Stream
from clusterra.job_environment import DEFAULT_ENVIRONMENT
from clusterra.models import (
    Estimate,
    Explanation,
    JobCounts,
    JobPage,
    JobRecord,
    SubmittedJob,
    SubmittedScript,
    Timeline,
)
from clusterra.operations.api import JOBS, MAX_PAGE, Api, Value, query, segment
from clusterra.operations.pages import paged

type Fields = Mapping[str, Any]
"""Fields of a job in slurmrestd's shape, such as `{"name": "fit", "cpus_per_task": 4, "time_limit": 60}`."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs of a list, and in which order. What is not given does not filter."""

    state: str | Sequence[str] = ()
    user: str | None = None
    name: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    submitted_after: datetime | None = None
    submitted_before: datetime | None = None
    sort: str | None = None
    search: str | None = None
    """A part of the name, or the id of a job or an array."""

    @property
    def asked(self) -> dict[str, Value]:
        """The query parameters without those of the states, the order and the pages."""
        return {
            "user": self.user,
            "name": self.name,
            "search": self.search,
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "submitted_after": self.submitted_after,
            "submitted_before": self.submitted_before,
        }


ALL_JOBS = JobFilter()


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to submit."""

    script: str
    job: Fields
    stage_in: Sequence[Fields] = ()
    stage_out: Sequence[Fields] = ()

    @property
    def body(self) -> dict[str, Any]:
        """The same as the body of a request. A job without an environment gets a small one."""
        staged = {"stage_in": list(self.stage_in), "stage_out": list(self.stage_out)}
        job = {"environment": list(DEFAULT_ENVIRONMENT), **self.job}
        return {"script": self.script, "job": job, **{name: given for name, given in staged.items() if given}}


def submit(api: Api, submission: Submission, cluster: str | None, key: str | None) -> Steps[SubmittedJob]:
    """Submit a job, once: the request has a key, with which it is sent again."""
    request = Request("POST", api.on("jobs/submit", cluster), body=submission.body, idempotency_key=key)
    return api.parsed(SubmittedJob, (yield from api.ask(request)))


def estimate(api: Api, submission: Submission, cluster: str | None) -> Steps[Estimate]:
    """What a job would cost, and when it would start."""
    request = Request("POST", api.on("jobs/estimate", cluster), body=submission.body, repeatable=True)
    return api.parsed(Estimate, (yield from api.ask(request)))


def listed(api: Api, wanted: JobFilter, cluster: str | None, limit: int | None) -> Stream[JobRecord]:
    """The jobs of a filter, the newest first unless `sort` says otherwise."""
    states = wanted.state.split(",") if isinstance(wanted.state, str) else wanted.state
    asked = query(
        {
            "state": tuple(each for each in states if each),
            **wanted.asked,
            "sort": wanted.sort,
            "limit": MAX_PAGE if limit is None else max(1, min(limit, MAX_PAGE)),
        }
    )
    request = Request("GET", api.on("jobs", cluster), asked)
    yield from paged(api, request, JobPage, lambda page: (page.jobs, page.cursor), limit)


def counted(api: Api, wanted: JobFilter, cluster: str | None) -> Steps[JobCounts]:
    """How many jobs of a filter there are, by state."""
    return (yield from api.read(JobCounts, Request("GET", api.on("jobs/counts", cluster), query(wanted.asked))))


def path_of(api: Api, job_id: str, cluster: str | None) -> str:
    """The path of a job. Raises ValueError for what is no id of a job."""
    if JOBS.fullmatch(job_id) is None:
        raise ValueError(
            f"a job id looks like 42, tasks of an array like 42_7 or 42_[1-3,5], and not like {job_id[:40]!r}"
        )
    return api.on(f"jobs/{segment(job_id)}", cluster)


def record(api: Api, path: str) -> Steps[JobRecord]:
    """The record of the job at a path."""
    return (yield from api.read(JobRecord, path))


def explained(api: Api, path: str) -> Steps[Explanation]:
    """Why the job at a path waits, where it runs, or how it ended."""
    return (yield from api.read(Explanation, f"{path}/why"))


def timeline(api: Api, path: str) -> Steps[Timeline]:
    """The stages of the job at a path, from its submit to its end."""
    return (yield from api.read(Timeline, f"{path}/timeline"))


def script(api: Api, path: str) -> Steps[str]:
    """The script that the job at a path was submitted with."""
    return (yield from api.read(SubmittedScript, f"{path}/script")).script


def cancel(api: Api, path: str) -> Steps[None]:
    """Cancel the job at a path. It may be sent again: a job that has ended stays as it is."""
    yield from api.carried_out(Request("DELETE", path, repeatable=True))


def act(api: Api, path: str, action: str, body: Fields | None = None) -> Steps[None]:
    """Hold, release, requeue or signal the job at a path, once."""
    yield from api.carried_out(Request("POST", f"{path}/{action}", body=body))


def update(api: Api, path: str, fields: Fields, key: str) -> Steps[None]:
    """Change fields of the job at a path, once for the key."""
    yield from api.carried_out(Request("PATCH", path, body=dict(fields), idempotency_key=key))
