"""slurmdbd through slurmrestd: jobs that slurmctld has purged, and users with rights over others."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from clusterra_contracts.identity import JobId
from clusterra_runtime.bounded_cache import BoundedCache

from clusterra_proxy.slurmrestd.accounting_records import (
    AccountingJobs,
    AccountingUsage,
    AccountingUsages,
    RunUsage,
)
from clusterra_proxy.slurmrestd.answers import Answer, Users
from clusterra_proxy.slurmrestd.associations import (
    Accounts,
    Association,
    Associations,
    added_accounts,
    added_users,
    changes,
)
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import Rejected, Unavailable
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.script_records import AccountingScripts
from clusterra_proxy.slurmrestd.step_records import AccountingStepLists, AccountingSteps
from clusterra_proxy.slurmrestd.tokens import MIN_ID
from clusterra_proxy.slurmrestd.versions import Version

type Query = dict[str, str]
type Submit = tuple[int, datetime | None]
"""The number and submit time of a job."""
type RunKey = tuple[int, datetime | None, int]
"""The number, submit time and restart count of a job's record."""

MAX_NOTED_UIDS = 500
"""The most owners that one request verifies, each by a query: the owners that most jobs name. Owners beyond these are
unknown until the next request. A user can write another owner into each job's comment."""
MAX_OWNERS = 20_000
"""The most jobs whose owners are remembered, some 400 bytes each: 8 MB."""
OWNER_SECONDS = 600.0
"""How long they are remembered: slurmdbd's jobs may be replaced by those of another Slurm."""
_NOT_PROVEN = 0
"""Remembered of a job whose owner could not be verified. No user's uid."""
MAX_USAGES = 5000
"""The most runs whose usage is kept: people look at a job's end more than once."""
MAX_ID = 2_000_000_000
"""The largest uid that the proxy mints a token for."""

OLDEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Lower bound of times in queries: Slurm rejects times near the epoch, and no job is older than this."""


class Accounting:
    """One cluster's slurmdbd. Every method raises the errors of `clusterra_proxy.slurmrestd.errors`.

    slurmdbd's job records hold no uid. Only a query for one uid (`users=`) proves who owns a job. A user can write
    anything into a job's comment, so an owner noted there is verified by such a query before it is used.
    """

    def __init__(self, slurmrestd: Slurmrestd, version: Callable[[str], Awaitable[Version]]) -> None:
        self._rest = slurmrestd
        self._version = version
        self.usages = BoundedCache[RunKey, RunUsage](MAX_USAGES)
        """What runs used that have ended."""
        self._owners = BoundedCache[Submit, int](MAX_OWNERS, OWNER_SECONDS)

    async def job(self, token: str, job_id: JobId, *, uid: int | None = None) -> tuple[JobRecord, ...]:
        """Return all runs of a job, or of all tasks of an array; with `uid`, only those that belong to that user."""
        return await self._with_owners(token, {"step": job_id, "show_duplicates": "true"}, uid)

    async def newest_run(self, token: str, job: JobRecord) -> JobRecord | None:
        """Return the newest run of a job or an array task, without its owner; None when slurmdbd has none."""
        found = await self._jobs(token, {"step": job.id, "show_duplicates": "true"}, None)
        runs = [run for run in found if run.job_id == job.job_id]
        return max(runs, key=lambda run: (run.submit_time or OLDEST, run.start_time or OLDEST), default=None)

    async def usage(self, token: str, job: JobRecord) -> AccountingUsage | None:
        """Return what the steps of one run consumed; None when slurmdbd has no such run."""
        version = await self._version(token)
        query = {"step": job.id, "show_duplicates": "true"}
        answer = await self._rest.read_list(
            version.slurmdb("jobs/"), token, AccountingUsages, entity="job", query=query
        )
        runs = [run for run in (answer.jobs if answer else ()) if run.job_id == job.job_id]
        if job.started_at is None:
            return next((run for run in runs if run.time.submission == job.submit_time), None)
        return next((run for run in runs if run.time.start == job.start_time), None)

    async def steps(self, token: str, job_id: JobId, *, uid: int | None) -> tuple[AccountingSteps, ...]:
        """Return all runs of a job, or of all tasks of an array, with their steps; with `uid`, only that user's."""
        version = await self._version(token)
        owner = {} if uid is None else {"users": str(uid)}
        query = {"step": job_id, "show_duplicates": "true", **owner}
        answer = await self._rest.read_list(
            version.slurmdb("jobs/"), token, AccountingStepLists, entity="job", query=query
        )
        return answer.jobs if answer else ()

    async def script(self, token: str, job_id: JobId, *, uid: int | None) -> str | None:
        """Return the script of a job, a task or an array; with `uid`, only of a job of that user.

        It is empty where slurmdbd keeps none, and None when slurmdbd has no such job.
        """
        owner = {} if uid is None else {"users": str(uid)}
        runs = await self._jobs(token, {"step": job_id, **owner}, uid)
        own = [run for run in runs if run.id == job_id or run.id.startswith(f"{job_id}_")]
        if not own:
            return None
        # The tasks of an array have one script: it is read once, of the tasks that have started if there are any.
        run = max(own, key=lambda each: each.array_task_id is not None)
        version = await self._version(token)
        query = {"step": run.id, "skip_steps": "true", "show_batch_script": "true", **owner}
        answer = await self._rest.read_list(
            version.slurmdb("jobs/"), token, AccountingScripts, entity="job", query=query
        )
        return next((each.script for each in (answer.jobs if answer else ()) if each.job_id == run.job_id), None)

    async def submitted(
        self, token: str, *, after: datetime, before: datetime | None = None, uid: int | None = None
    ) -> tuple[JobRecord, ...]:
        """Return all runs submitted between two times; with `uid`, only those of that user."""
        query = {"usage_time_as_submit_time": "true", "show_duplicates": "true", "start_time": _time(after)}
        if before is not None:
            query["end_time"] = _time(before)
        return await self._with_owners(token, query, uid)

    async def active(self, token: str, *, after: datetime) -> tuple[JobRecord, ...]:
        """Return all runs that held nodes at any time since `after`."""
        return await self._with_owners(token, {"start_time": _time(after), "show_duplicates": "true"}, None)

    async def note(self, token: str, job_id: JobId, text: str) -> None:
        """Write the `AdminComment` of a job or an array task that has ended.

        Raises Rejected by a Slurm before 25.11, whose slurmrestd cannot do it.
        """
        version = await self._version(token)
        if not version.notes_ended_jobs:
            raise Rejected(
                f"slurmrestd's {version.name} cannot change jobs in accounting", hint="that needs Slurm 25.11 or newer"
            )
        body = {"comment": {"administrator": text}}
        await self._rest.write("POST", version.slurmdb(f"job/{job_id}"), token, Answer, entity="job", body=body)

    async def associations(self, token: str, **of: str) -> tuple[Association, ...]:
        """Return the associations of this cluster; with `user` or `account`, only theirs."""
        version = await self._version(token)
        path = version.slurmdb("associations/")
        answer = await self._rest.read_list(path, token, Associations, entity="association", query=of)
        return () if answer is None else answer.of_this_cluster

    async def accounts(self, token: str) -> tuple[str, frozenset[str]]:
        """Return the name of this cluster in slurmdbd, and the accounts of all its clusters."""
        version = await self._version(token)
        answer = await self._rest.read(version.slurmdb("accounts/"), token, Accounts, entity="account")
        return answer.meta.slurm.cluster, frozenset(each.name for each in answer.accounts)

    async def add_accounts(self, token: str, names: Iterable[str], cluster: str) -> None:
        """Add these accounts of Clusterra's (OWN_ACCOUNTS) to a cluster. Those that are there stay."""
        version = await self._version(token)
        for body in added_accounts(names, cluster):
            path = version.slurmdb("accounts_association/")
            await self._rest.add(path, token, Answer, entity="account", body=body)

    async def add_users(
        self, token: str, users: Iterable[str], accounts: Iterable[str], cluster: str, *, default: str = ""
    ) -> None:
        """Add users to accounts. What is there stays; `default` becomes the default account of new associations."""
        version = await self._version(token)
        for body in added_users(users, accounts, cluster, default):
            await self._rest.add(version.slurmdb("users_association/"), token, Answer, entity="association", body=body)

    async def change_associations(self, token: str, changed: Sequence[dict[str, Any]]) -> None:
        """Change associations: each as `Association.with_most_submitted` or `Association.as_default` makes it."""
        version = await self._version(token)
        for body in changes(changed):
            path = version.slurmdb("associations/")
            await self._rest.write("POST", path, token, Answer, entity="association", body=body)

    async def privileged_names(self, token: str) -> frozenset[str]:
        """Return the names of users with rights over others. Raises Unavailable when slurmdbd lists no users at all."""
        version = await self._version(token)
        answer = await self._rest.read(version.slurmdb("users/"), token, Users, entity="user")
        if not answer.users:
            raise Unavailable(
                "slurmdbd lists no users, so privileged names are unknown",
                hint="give the proxy's service user AdminLevel=Administrator in slurmdbd",
            )
        return frozenset(user.name for user in answer.users if user.privileged)

    async def _with_owners(self, token: str, query: Query, uid: int | None) -> tuple[JobRecord, ...]:
        if uid is not None:
            return await self._jobs(token, query | {"users": str(uid)}, uid)
        records = await self._jobs(token, query, None)
        owners = await self._owners_of(token, query, records)
        return tuple(record.model_copy(update={"user_id": owners.get(_submit(record)) or None}) for record in records)

    async def _owners_of(self, token: str, query: Query, records: Sequence[JobRecord]) -> dict[Submit, int]:
        """The owners of those jobs whose owners are known, or can be proven."""
        owners = {each: known for each in map(_submit, records) if (known := self._owners.get(each)) is not None}
        unknown = [record for record in records if _submit(record) not in owners]
        names = {record.user_name for record in unknown}
        # A job without a comment is proven with those of the same name whose owners are known.
        likely = (owners.get(_submit(each), _noted_uid(each)) for each in records if each.user_name in names)
        noted = Counter(uid for uid in likely if uid)
        asked = [uid for uid, _ in noted.most_common(MAX_NOTED_UIDS)]
        proven: dict[Submit, int] = {}
        for uid in asked:
            owned = await self._jobs(token, query | {"users": str(uid)}, uid)
            proven |= {_submit(record): uid for record in owned}
        tried = {*asked, None} if len(asked) == len(noted) else {*asked}
        for record in unknown:
            submit = _submit(record)
            # slurmdbd may get the comment of a run only with its end.
            if submit in proven or (record.ended and _noted_uid(record) in tried):
                owners[submit] = proven.get(submit, _NOT_PROVEN)
                self._owners.put(submit, owners[submit])
        return owners

    async def _jobs(self, token: str, query: Query, uid: int | None) -> tuple[JobRecord, ...]:
        version = await self._version(token)
        answer = await self._rest.read_list(
            version.slurmdb("jobs/"), token, AccountingJobs, entity="job", query={"skip_steps": "true", **query}
        )
        return tuple(job.to_job_record(uid) for job in answer.jobs) if answer else ()


def _submit(run: JobRecord) -> Submit:
    return run.job_id, run.submit_time


def _noted_uid(run: JobRecord) -> int | None:
    """The uid in a job's comment, which proves nothing; None for one without a uid that tokens are minted for."""
    noted = run.parsed_comment.uid
    return int(noted) if noted and MIN_ID <= int(noted) <= MAX_ID else None


def _time(moment: datetime) -> str:
    return f"uts{int(max(moment, OLDEST).timestamp())}"
