"""slurmdbd, as slurmrestd shows it: jobs that slurmctld has forgotten, and who has rights over others."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from clusterra_contracts.identity import JobId

from clusterra_proxy.slurmrestd.accounting_records import AccountingJobs
from clusterra_proxy.slurmrestd.answers import Users
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import Unavailable
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.versions import Version

type Query = dict[str, str]

OLDEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Slurm reads no times near the epoch, and there is no job as old as this."""


class Accounting:
    """One cluster's slurmdbd. Every method raises the errors of `clusterra_proxy.slurmrestd.errors`.

    slurmdbd tells no uid; only a question about one uid (`users=`) shows whose a job is. So an owner that stands in
    a job's comment, where a user can write what he likes, is asked for again before it is believed.
    """

    def __init__(self, slurmrestd: Slurmrestd, version: Callable[[str], Awaitable[Version]]) -> None:
        self._rest = slurmrestd
        self._version = version

    async def job(self, token: str, job_id: JobId, *, uid: int | None = None) -> tuple[JobRecord, ...]:
        """All runs of a job, or all tasks of an array; with `uid` only if it belongs to that user."""
        return await self._with_owners(token, {"step": job_id, "show_duplicates": "true"}, uid)

    async def submitted(
        self, token: str, *, after: datetime, before: datetime | None = None, uid: int | None = None
    ) -> tuple[JobRecord, ...]:
        """All runs that were submitted within a time; with `uid` those of that user."""
        query = {"usage_time_as_submit_time": "true", "show_duplicates": "true", "start_time": _time(after)}
        if before is not None:
            query["end_time"] = _time(before)
        return await self._with_owners(token, query, uid)

    async def active(self, token: str, *, after: datetime) -> tuple[JobRecord, ...]:
        """All runs that had nodes at any time since `after`."""
        return await self._with_owners(token, {"start_time": _time(after), "show_duplicates": "true"}, None)

    async def privileged_names(self, token: str) -> frozenset[str]:
        """The names that have rights over others. Raises Unavailable when slurmdbd names no user at all."""
        version = await self._version(token)
        answer = await self._rest.read(version.slurmdb("users/"), token, Users, entity="user")
        if not answer.users:
            raise Unavailable(
                "slurmdbd shows us no users, so names with rights cannot be told from others",
                hint="give the proxy's service user the admin level that it needs in slurmdbd",
            )
        return frozenset(user.name for user in answer.users if user.privileged)

    async def _with_owners(self, token: str, query: Query, uid: int | None) -> tuple[JobRecord, ...]:
        if uid is not None:
            return await self._jobs(token, query | {"users": str(uid)}, uid)
        records = await self._jobs(token, query, None)
        owners: dict[tuple[int, datetime | None], int] = {}
        for noted_uid in sorted(
            {int(record.parsed_comment.uid) for record in records if record.parsed_comment.uid.isdecimal()}
        ):
            owned = await self._jobs(token, query | {"users": str(noted_uid)}, noted_uid)
            owners |= {(record.job_id, record.submit_time): noted_uid for record in owned}
        return tuple(
            record.model_copy(update={"user_id": owners.get((record.job_id, record.submit_time))}) for record in records
        )

    async def _jobs(self, token: str, query: Query, uid: int | None) -> tuple[JobRecord, ...]:
        version = await self._version(token)
        answer = await self._rest.read_list(
            version.slurmdb("jobs/"), token, AccountingJobs, entity="job", query={"skip_steps": "true", **query}
        )
        return tuple(job.to_job_record(uid) for job in answer.jobs) if answer else ()


def _time(moment: datetime) -> str:
    return f"uts{int(max(moment, OLDEST).timestamp())}"
