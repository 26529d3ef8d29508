"""Takes a staging through its phases, as far as possible now: the transitions of its state machine."""

from contextlib import suppress
from datetime import timedelta
from typing import Literal

import structlog
from clusterra_contracts.events import StagingFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.job_states import ENDED
from clusterra_contracts.rpc.slurm import FindKey, Job, Viewer
from clusterra_contracts.rpc.slurm_jobs import Release
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import ConditionFailed, Put

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, file_event_key
from clusterra_gateway.accounts.records import expiry
from clusterra_gateway.accounts.roles import includes, manages
from clusterra_gateway.bus.requests import EdgeRequests, SlurmRequests
from clusterra_gateway.files.buckets import Bucket, Buckets
from clusterra_gateway.files.paths import SHARED
from clusterra_gateway.files.presigned import Bounds
from clusterra_gateway.http.requests.errors import RequestError
from clusterra_gateway.staging.copies import OutputCopies, copy_inputs
from clusterra_gateway.staging.staging import Phase, Staging
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.staging.turn import Lost, Paused, Turn, TurnOver

log = structlog.get_logger()

_KEPT = timedelta(days=7)
"""How long the item of a sent event is kept: longer than the event may be written again."""


class StagingEvents:
    """Records in the cluster's history that the files of a job were staged.

    The id of the event is deterministic, so repeats are harmless. It is written before the staging enters its next
    phase.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def tell(self, ref: ClusterRef, staging: Staging, direction: Literal["in", "out"]) -> None:
        """Tell that one direction is over. Raises StoreUnavailable."""
        copied = staging.staged_in if direction == "in" else staging.staged_out
        assert staging.job_id is not None  # noqa: S101 - nothing is staged before the job is known
        fact = StagingFact(
            job_id=staging.job_id,
            name=staging.job_name,
            user=staging.user.name,
            uid=staging.user.uid,
            direction=direction,
            state="failed" if copied.failed_files else "done",
            files=copied.files,
            bytes=copied.bytes,
            failed_files=copied.failed_files,
        )
        at, version = now(), f"{staging.id}-{direction}"
        put = Put(ACCOUNTS, file_event_key(ref, version), {}, Absent(), expiry(at + _KEPT))
        with suppress(ConditionFailed):  # it was told already
            await self._outbox.write(put, [cluster_event(ref, fact, version=version, at=at)])


SETTLED_SECONDS = 120.0
"""How long after a submit without an answer its job may still appear."""


class StagingReconciler:
    """The transitions of all stagings. `reconcile` may raise StoreError."""

    def __init__(
        self,
        records: StagingRecords,
        directory: Directory,
        requests: tuple[SlurmRequests, EdgeRequests],
        files: tuple[Buckets, Bounds],
        instance: str,
    ) -> None:
        self._records = records
        self._directory = directory
        self._slurm, self._edge = requests
        self._buckets, self._bounds = files
        self._events = StagingEvents(directory.outbox)
        self._instance = instance

    async def reconcile(self, ref: ClusterRef, staging_id: str) -> Staging | None:
        """Does all that can be done now, and returns the staging; None if it does not exist or needs nothing."""
        stored = await self._records.read(ref, staging_id)
        if stored is None or stored.staging.over:
            await self._records.unmark(ref, staging_id)
            return None
        if not stored.staging.may_claim(self._instance, now()) or _being_submitted(stored.staging):
            return stored.staging
        turn = Turn(self._records, self._edge, ref, stored, self._instance)
        try:
            if stored.staging.phase != "waiting" or await self._has_ended(turn):
                await self._through(turn)
        except Lost:
            log.info("staging_goes_on_elsewhere", staging=staging_id)
        return turn.staging

    async def _through(self, turn: Turn) -> None:
        try:
            await turn.claim()
            before: Phase | None = None
            while turn.staging.phase != before and not turn.staging.over:
                before = turn.staging.phase
                if turn.staging.expired(now()) and turn.staging.phase != "submitting":
                    await self._given_up(turn)
                    continue
                await self._phase(turn)
            if not turn.staging.over:
                await turn.release()
        except TurnOver:
            await turn.release()
        except Paused as paused:
            await self._pause(turn, str(paused), by_file=paused.by_file)
        except RequestError as error:
            await self._pause(turn, error.detail)
        except RpcFailed as failed:
            await self._pause(turn, failed.error.detail)

    async def _pause(self, turn: Turn, reason: str, *, by_file: bool = False) -> None:
        # Not the reason: it may have the name of a person's file.
        log.info("staging_paused", staging=turn.staging.id, job=turn.staging.job_id, phase=turn.staging.phase)
        await turn.pause(reason, by_file=by_file)

    async def _phase(self, turn: Turn) -> None:
        match turn.staging.phase:
            case "submitting":
                await self._find_job(turn)
            case "staging_in":
                await self._stage_in(turn)
            case "waiting":
                await self._after_the_job(turn)
            case "staging_out":
                await self._stage_out(turn)
            case "done" | "failed":
                pass

    async def _find_job(self, turn: Turn) -> None:
        """Looks for the job of a submit whose gateway died.

        The staging is abandoned only after Slurm has said that no job exists: its job would be held for ever.
        """
        staging = turn.staging
        request = FindKey(user=staging.user, idempotency_key=staging.key, claimed_at=staging.created_at)
        found = await self._slurm.find_key(turn.ref, request)
        if found is not None:
            await turn.went_on(job_id=found.job_id, phase="staging_in")
        elif staging.expired(now()):
            log.info("staging_without_job", staging=staging.id)
            await turn.went_on(phase="failed")
        else:
            raise Paused("its job is not found")

    async def _stage_in(self, turn: Turn) -> None:
        bucket = await self._bucket(turn)
        if bucket is not None and not turn.staging.staged_in.failed_files:
            await copy_inputs(turn, bucket, self._bounds.lifetime(None))
        if turn.staging.inputs or turn.staging.staged_in.failed_files:
            await self._events.tell(turn.ref, turn.staging, "in")
        if turn.staging.staged_in.failed_files:
            await self._cancel(turn)
            await turn.went_on(phase="failed")
            return
        if not turn.staging.stays_held:
            await self._release(turn)
        await turn.went_on(phase="waiting")

    async def _release(self, turn: Turn) -> None:
        staging = turn.staging
        assert staging.job_id is not None  # noqa: S101 - the phase says so
        try:
            await self._slurm.change(turn.ref, Viewer(user=staging.user), staging.job_id, Release())
        except RpcFailed as failed:
            if failed.error.kind == "unavailable":
                raise
            # It was cancelled, or released by its owner.
            log.info("staged_job_not_released", job=staging.job_id, reason=failed.error.detail)

    async def _cancel(self, turn: Turn) -> None:
        staging = turn.staging
        assert staging.job_id is not None  # noqa: S101 - the phase says so
        try:
            await self._slurm.cancel(turn.ref, Viewer(user=staging.user), staging.job_id)
        except RpcFailed as failed:
            if failed.error.kind == "unavailable":
                raise
            log.info("staged_job_not_cancelled", job=staging.job_id, reason=failed.error.detail)

    async def _has_ended(self, turn: Turn) -> bool:
        """Whether the job of a staging that waits for its end has ended. Nothing is written for one that has not."""
        try:
            job = await self._job(turn)
        except RpcFailed as failed:
            log.info("staged_job_not_read", job=turn.staging.job_id, reason=failed.error.detail)
            return False
        return job is None or job.state in ENDED

    async def _after_the_job(self, turn: Turn) -> None:
        job = await self._job(turn)
        if job is None:
            await turn.went_on(phase="staging_out" if turn.staging.outputs else "done")
        elif job.state in ENDED:
            ran = job.started_at is not None
            await turn.went_on(phase="staging_out" if turn.staging.outputs and ran else "done")

    async def _job(self, turn: Turn) -> Job | None:
        """The job; None if Slurm has forgotten it after its end. Raises RpcFailed."""
        staging = turn.staging
        assert staging.job_id is not None  # noqa: S101 - the phase says so
        try:
            return await self._slurm.job(turn.ref, Viewer(user=staging.user), staging.job_id)
        except RpcFailed as failed:
            if failed.error.kind != "not_found":
                raise
            return None

    async def _stage_out(self, turn: Turn) -> None:
        bucket = await self._bucket(turn)
        if bucket is not None:
            await OutputCopies(turn, bucket, self._bounds).run()
        await self._events.tell(turn.ref, turn.staging, "out")
        await turn.went_on(phase="failed" if turn.staging.staged_out.failed_files else "done")

    async def _bucket(self, turn: Turn) -> Bucket | None:
        """The bucket, unless the job's owner may not use it any more. Raises RequestError."""
        staging = turn.staging
        member = await self._directory.member(staging.member)
        shared = any(each.destination.split("/")[0] == SHARED for each in staging.outputs)
        may = member is not None and not member.disabled and includes(member.role, "member")
        if may and member is not None and (staging.phase == "staging_in" or not shared or manages(member.role)):
            return await self._buckets.of(turn.ref)
        await self._fail(turn, "the job's owner may not copy these files any more")
        return None

    async def _given_up(self, turn: Turn) -> None:
        staging = turn.staging
        await self._fail(turn, f"given up: {staging.pause or 'it did not go on'}")
        into = staging.phase == "staging_in"
        await self._events.tell(turn.ref, turn.staging, "in" if into else "out")
        if into:
            await self._cancel(turn)
        await turn.went_on(phase="failed")

    async def _fail(self, turn: Turn, reason: str) -> None:
        if turn.staging.phase == "staging_in":
            await turn.went_on(staged_in=turn.staging.staged_in.failing(reason))
        else:
            await turn.went_on(staged_out=turn.staging.staged_out.failing(reason))


def _being_submitted(staging: Staging) -> bool:
    """Whether the gateway that submits the job may still be at it."""
    age = (now() - staging.created_at).total_seconds()
    return staging.phase == "submitting" and age < SETTLED_SECONDS
