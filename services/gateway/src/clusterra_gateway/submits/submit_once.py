"""Submits the job of an idempotency key exactly once, however often and through whichever replica it is asked for."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc import slurm
from clusterra_contracts.rpc.deadlines import BEGIN_SECONDS
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import Submit, Submitted
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.single_flight import SingleFlight
from clusterra_runtime.store.store import StoreError

from clusterra_gateway.http.requests.errors import InFlight, KeyReused, OutcomeUnknown, RequestError
from clusterra_gateway.idempotency.key import ScopedKey
from clusterra_gateway.money.quotas.reservations import AlreadyReserved, PendingReservation, Reservations
from clusterra_gateway.submits.claim import Claim
from clusterra_gateway.submits.keys import StoredClaim, SubmitKeys

log = structlog.get_logger()

type Send = Callable[[ClusterRef, Submit], Awaitable[Submitted]]
"""Sends a submit to the proxy. Raises RpcFailed."""

_ASK_AGAIN = "ask again with the same key and the same body, after the seconds in Retry-After: it makes no second job"


class SubmitOnce:
    """Submits by the rules of `Claim`. The proxy gets the claim with each submit, and respects it."""

    def __init__(
        self,
        keys: SubmitKeys,
        send: Send,
        clock: Callable[[], float] = time.time,
        reservations: Reservations | None = None,
    ) -> None:
        """`reservations` is needed for submits with a reservation."""
        self._keys = keys
        self._reservations = reservations
        self._send = send
        self._clock = clock
        self._looks = SingleFlight[ScopedKey, Submitted]()

    async def submit(
        self, key: ScopedKey, message: Submit, request: str, pending: PendingReservation | None = None
    ) -> Submitted:
        """Submit, or return the answer of an earlier submit. `request` is the hash of the client's request.

        A reservation is made together with the first claim, and released with the claim.

        Raises KeyReused, InFlight, OutcomeUnknown, QuotaExceeded, RpcFailed, StoreUnavailable.
        """
        try:
            return await self._submit(key, message, request, pending)
        except AlreadyReserved as taken:
            # The key is free. The job of an attempt before still runs, or the release of its reservation was lost.
            assert pending is not None and self._reservations is not None  # noqa: S101, PT018 - nothing is reserved else
            return await self._submit(key, message, request, await self._reservations.make_room(pending, taken))

    async def _submit(
        self, key: ScopedKey, message: Submit, request: str, pending: PendingReservation | None
    ) -> Submitted:
        at = self._clock()
        found, is_new = await self._keys.claim(key, request, at, pending)
        if is_new:
            return await self._first_attempt(key, message, found, pending)
        answer = await self._answered(key, message, request, found.claim, at)
        if answer is None:
            mine = await self._claimed_again(key, found, at)
            return await self._attempt(key, message, mine, pending, before=found.claim)
        await self._book(pending, answer)
        return answer

    async def find(self, key: ScopedKey, message: Submit, request: str) -> Submitted | None:
        """Returns the job of an earlier submit, and submits nothing.

        None: no job exists, and no earlier submit can make one.

        It claims the key, so that a submit that another gateway is about to begin finds the key taken.
        Raises KeyReused, StoreUnavailable; InFlight and OutcomeUnknown while an earlier submit may still make a job.
        """
        at = self._clock()
        found, is_new = await self._keys.claim(key, request, at)
        if is_new:
            return None
        answer = await self._answered(key, message, request, found.claim, at)
        if answer is not None:
            return answer
        mine = await self._claimed_again(key, found, at)
        try:
            return await self._asked(key, message, mine.claim)
        except RpcFailed as failed:
            if failed.error.kind == "not_found":
                return None
            raise _not_answered(mine.claim, self._clock(), failed.error) from failed

    async def _answered(
        self, key: ScopedKey, message: Submit, request: str, claim: Claim, at: float
    ) -> Submitted | None:
        """The job of somebody else's claim; None when the claim is settled and has none, so that it may be claimed."""
        match claim.action(request, at):
            case "reused":
                raise KeyReused(
                    "this Idempotency-Key was used for a different request",
                    hint="use a new key for each new job; send a key again only with exactly the same body",
                )
            case "answered":
                assert claim.answer is not None  # noqa: S101 - the action says so
                return claim.answer.model_copy(update={"repeated": True})
            case "wait":
                raise _not_answered(claim, at)
            case "look":
                return await self._look(key, message, claim)
            case "again":
                return None

    async def _claimed_again(self, key: ScopedKey, found: StoredClaim, at: float) -> StoredClaim:
        mine = await self._keys.claim_again(key, found, at)
        if mine is None:
            raise _not_answered(found.claim.again("", at), at)
        return mine

    async def _first_attempt(
        self, key: ScopedKey, message: Submit, mine: StoredClaim, pending: PendingReservation | None
    ) -> Submitted:
        try:
            return await self._attempt(key, message, mine, pending, before=None)
        except RpcFailed:
            # It certainly made no job, or the error would be another one.
            if pending is not None and self._reservations is not None:
                await self._note(self._reservations.settle(pending.reservation, 0))
            raise

    async def _attempt(
        self,
        key: ScopedKey,
        message: Submit,
        mine: StoredClaim,
        pending: PendingReservation | None,
        *,
        before: Claim | None,
    ) -> Submitted:
        """Submit under one's own claim. `before` is the claim of the attempts before, if there were any."""
        claim = mine.claim
        wire = slurm.Claim(
            claimed_at=_moment(claim.claimed_at),
            sent_at=_moment(claim.sent_at),
            first=before is None,
            begin_by=_moment(claim.sent_at + BEGIN_SECONDS),
        )
        try:
            submitted = await self._send(key.ref, message.model_copy(update={"claim": wire}))
        except RpcFailed as failed:
            if failed.error.may_have_effect:
                await self._note(self._keys.replace(key, mine, claim.unconfirmed()))
            elif before is None:
                await self._note(self._keys.release(key, mine))
            else:
                await self._note(self._keys.replace(key, mine, claim.undone(before)))
            if failed.error.may_have_effect or (before is not None and failed.error.kind == "unavailable"):
                raise _not_answered(claim.unconfirmed(), self._clock(), failed.error) from failed
            raise
        # Neither needs the other: what is lost of them, the claim's settling or the quotas' sweep makes good.
        await asyncio.gather(
            self._note(self._keys.complete(key, claim.request, submitted)), self._book(pending, submitted)
        )
        return submitted

    async def _book(self, pending: PendingReservation | None, submitted: Submitted) -> None:
        if pending is not None and self._reservations is not None:
            await self._reservations.book(pending, submitted.job_id)

    async def _look(self, key: ScopedKey, message: Submit, claim: Claim) -> Submitted:
        """Look for the job of another request's claim. All who wait for one key share one look.

        Each look asks Slurm. The looks of many clients, who ask again and again, would keep the attempt that settles
        the key waiting until it is too late to begin.
        """
        return await self._looks.get(key, partial(self._look_once, key, message, claim))

    async def _look_once(self, key: ScopedKey, message: Submit, claim: Claim) -> Submitted:
        try:
            return await self._asked(key, message, claim)
        except RpcFailed as failed:
            raise _not_answered(claim, self._clock(), failed.error) from failed

    async def _asked(self, key: ScopedKey, message: Submit, claim: Claim) -> Submitted:
        """Ask the proxy for the job of a claim. Raises RpcFailed: `not_found` when there is none yet."""
        wire = slurm.Claim(claimed_at=_moment(claim.claimed_at), sent_at=_moment(self._clock()))
        submitted = await self._send(key.ref, message.model_copy(update={"claim": wire}))
        await self._note(self._keys.complete(key, claim.request, submitted))
        return submitted.model_copy(update={"repeated": True})

    async def _note(self, write: Awaitable[object]) -> None:
        """Stores the known outcome. A lost write costs time but no job: the claim settles without it."""
        try:
            await write
        except StoreError as error:
            log.warning("claim_not_written", reason=str(error))


def unknown_outcome(error: RpcError) -> OutcomeUnknown:
    """The error of a submit without a key that may have made a job."""
    return OutcomeUnknown(
        f"nobody knows whether the job was submitted: {error.detail}",
        hint="look at the list of your jobs before you submit again; with an Idempotency-Key you could just ask again",
        code=error.code,
    )


def _not_answered(claim: Claim, at: float, error: RpcError | None = None) -> RequestError:
    """The error for a key whose job is not known yet."""
    retry_after = claim.retry_after_seconds(at)
    if claim.in_flight(at):
        return InFlight(
            "a request with this Idempotency-Key is in flight", hint=_ASK_AGAIN, retry_after_seconds=retry_after
        )
    why = f": {error.detail}" if error is not None and error.kind != "not_found" else ""
    return OutcomeUnknown(
        f"nobody knows yet whether the job was submitted{why}",
        hint=_ASK_AGAIN,
        code=error.code if error is not None else None,
        retry_after_seconds=retry_after,
    )


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
