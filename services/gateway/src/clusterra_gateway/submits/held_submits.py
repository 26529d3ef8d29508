"""Submits held jobs whose files are staged, so that no job is held that nobody releases.

The staging is stored before the job is submitted. A gateway that dies in between leaves a staging without a job, and
the sweep looks for the job by its idempotency key.

A submit that certainly made no job removes the staging only if it stored it, and nobody has changed it since: an
attempt before it, or another one at the same time, may have made a job.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from clusterra_contracts.identity import ClusterRef, JobId, SlurmUser, now
from clusterra_contracts.rpc.slurm import Submitted
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.optimistic_write import Overtaken, write_optimistically

from clusterra_gateway.http.requests.errors import (
    InFlight,
    KeyReused,
    OutcomeUnknown,
    RequestError,
    TooLarge,
    Unavailable,
)
from clusterra_gateway.identity.access.unix_users import Person
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import StagingRecords, Stored
from clusterra_gateway.submission.models import OneJob, asks_for_hold
from clusterra_gateway.submission.staged_files import StagingPlan

MAX_BYTES = 320 * 1024
"""The largest new staging: an item of the store has at most 400 KiB, and up to 64 KiB of errors are added to it."""
_ATTEMPTS = 10
_CLOCKS_DIFFER = timedelta(minutes=1)


@dataclass(frozen=True)
class StagedJob:
    """A job whose files are staged: whose it is, and how its submit is found again."""

    member: str
    """The id of its owner."""
    user: SlurmUser
    name: str
    key: str
    """The idempotency key of its submit."""
    digest: str
    """The hash of the request, to tell a repeated request from another one."""
    stays_held: bool

    @classmethod
    def of(cls, who: Person, submission: OneJob, key: str, *, digest: str) -> "StagedJob":
        """The job of a submission."""
        return cls(
            member=who.member.id,
            user=who.slurm_user,
            name=submission.job.name,
            key=key,
            digest=digest,
            stays_held=asks_for_hold(submission.script, submission.job),
        )


class HeldSubmits:
    """The submits of held jobs. Every method may raise StoreError."""

    def __init__(self, records: StagingRecords) -> None:
        self._records = records

    async def known(self, ref: ClusterRef, member: str, key: str) -> Staging | None:
        """The staging of a submit; None if it does not exist, or was abandoned before there was a job."""
        stored = await self._records.read(ref, staging_id(ref, member, key))
        return None if stored is None or _given_up(stored.staging) else stored.staging

    async def submit[A: Submitted | None](
        self, ref: ClusterRef, job: StagedJob, plan: StagingPlan, send: Callable[[], Awaitable[A]]
    ) -> A | Submitted:
        """Submits a held job by `send`, and has its files staged. Raises what `send` raises, TooLarge and Unavailable.

        `send` is not called where the job of this key is known; raises KeyReused where it is that of another request.
        Where `send` returns None, there is no job.
        """
        stored, is_new = await self._begun(ref, job, plan)
        known, place = stored.staging, stored.staging.id
        if known.job_id is not None:
            # Its key may have ended, and the job would be submitted again.
            return Submitted(job_id=known.job_id, accepted_at=known.created_at, repeated=True)
        try:
            answer = await send()
        except (InFlight, OutcomeUnknown):
            raise
        except RequestError:
            if is_new:
                await self._records.remove(ref, stored)
            raise
        except RpcFailed as failed:
            if is_new and not failed.error.may_have_effect:
                await self._records.remove(ref, stored)
            raise
        if answer is None or (answer.repeated and answer.accepted_at + _CLOCKS_DIFFER < known.created_at):
            # There is no job, or one that was submitted without files, such as by an earlier version of its template.
            await self._records.remove(ref, stored)
            return answer
        if await self._named(ref, place, answer.job_id) is None:
            # The same request, sent twice at a time, made no job the other time and removed it.
            await self._records.create(ref, known)
            await self._named(ref, place, answer.job_id)
        return answer

    async def _begun(self, ref: ClusterRef, job: StagedJob, plan: StagingPlan) -> tuple[Stored, bool]:
        """The staging of a submit, and whether it is new. It is not abandoned while the submit continues."""
        place, at = staging_id(ref, job.member, job.key), now()

        async def attempt() -> tuple[Stored, bool]:
            stored, created_at = await self._records.read(ref, place), at
            if stored is not None and _given_up(stored.staging):
                created_at = stored.staging.created_at
                await self._records.remove(ref, stored)
                stored = None
            if stored is None:
                new = _new(place, job, plan).progressed(at, created_at=created_at)
                _check_size(new)
                return _first(await self._records.create(ref, new)), True
            if stored.staging.job_id is not None:
                if stored.staging.digest != job.digest:
                    raise key_reused()
                return stored, False
            return _first(await self._records.replace(ref, stored, stored.staging.progressed(at))), False

        contended = Unavailable("what is to be staged could not be stored", hint="send the request again")
        return await write_optimistically(attempt, contended=contended, attempts=_ATTEMPTS)

    async def _named(self, ref: ClusterRef, place: str, job_id: JobId) -> Stored | None:
        """Note the job of a staging, and let its first phase begin."""

        async def attempt() -> Stored | None:
            stored = await self._records.read(ref, place)
            if stored is None or stored.staging.job_id is not None:
                return stored
            changed = stored.staging.progressed(now(), job_id=job_id, phase="staging_in", claimed_by="")
            return _first(await self._records.replace(ref, stored, changed))

        contended = Unavailable("others are changing this staging", hint="try again in a moment")
        return await write_optimistically(attempt, contended=contended, attempts=_ATTEMPTS)


def _first(written: Stored | None) -> Stored:
    """What was written. Raises Overtaken where another writer was faster."""
    if written is None:
        raise Overtaken("another writer of this staging was faster")
    return written


def key_reused() -> KeyReused:
    """The error of a request whose key is that of another one."""
    return KeyReused("this Idempotency-Key was used for a different request", hint="use a new key for each new job")


def staging_id(ref: ClusterRef, member: str, key: str) -> str:
    """The id of the staging of a submit: for an idempotency key of a member always the same."""
    return hashlib.sha256(f"{ref.key}#{member}#{key}".encode()).hexdigest()[:32]


def _check_size(staging: Staging) -> None:
    if len(staging.model_dump_json().encode()) > MAX_BYTES:
        raise TooLarge(
            f"the paths of all files and the job's name are longer than {MAX_BYTES // 1024} KiB together",
            hint="stage in fewer files, such as one archive, or use shorter paths",
        )


def _given_up(staging: Staging) -> bool:
    return staging.over and staging.job_id is None


def _new(place: str, job: StagedJob, plan: StagingPlan) -> Staging:
    at = now()
    return Staging(
        id=place,
        member=job.member,
        user=job.user,
        job_name=job.name,
        key=job.key,
        digest=job.digest,
        created_at=at,
        folder=plan.folder,
        inputs=plan.inputs,
        outputs=plan.outputs,
        stays_held=job.stays_held,
        progressed_at=at,
    )
