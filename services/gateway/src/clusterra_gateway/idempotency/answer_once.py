"""Carries out a request that makes something at most once for an Idempotency-Key, and gives its answer again.

A secret is kept nowhere. So of an answer with a secret only the id is kept: whoever lost that answer gets the id, and
makes a new one.
"""

import hashlib
import time
import uuid
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from clusterra_contracts.rpc.budgets import HTTP_SECONDS
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store, StoreError, Update
from pydantic import BaseModel

from clusterra_gateway.http.errors import Conflict, InFlight, KeyReused, OutcomeUnknown, RequestError
from clusterra_gateway.http.responses import ResponseBody, json_bytes, json_response
from clusterra_gateway.idempotency.key import IDEMPOTENCY, KEEP_SECONDS, REPLAYED, idempotency_key

log = structlog.get_logger()

IN_FLIGHT_SECONDS = HTTP_SECONDS
"""A request without an answer after this time has been given up by everybody who worked on it."""
KEPT_BYTES = 256 * 1024
"""The longest answer that is kept. An item of the store has at most 400 KB."""


class ShownOnce(ResponseBody):
    """An answer with a secret, which is shown only this once."""

    id: str


type Act = Callable[[], Awaitable[ResponseBody]]


class AnswerOnce:
    """The keys of requests that make something. A key belongs to one person in one tenant, and to one request."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def answer(
        self, request: web.Request, owner: str, wanted: BaseModel, act: Act, *, status: int = 201
    ) -> web.Response:
        """Act and answer, or answer as before. `owner` is the person with their tenant, `wanted` the body.

        A request that fails leaves its key free. Raises KeyReused, InFlight, OutcomeUnknown, Conflict and
        StoreUnavailable, and what `act` raises.
        """
        key = idempotency_key(request)
        if key is None:
            return json_response(await act(), status=status)
        digest = _digest(request, wanted)
        place, now, attempt = Key(f"{owner}#{key}", "answer"), self._clock(), uuid.uuid4().hex
        values: Attributes = {"request": digest, "owner": attempt, "sent_at": now, "done": False}
        try:
            mine = await self._store.write(Put(IDEMPOTENCY, place, values, Absent(), int(now) + KEEP_SECONDS))
        except ConditionFailed as taken:
            if taken.current is None:
                raise InFlight("this Idempotency-Key has just expired", hint="ask again") from None
            # The store repeats a write whose answer was lost, and then finds its own claim.
            if taken.current.attributes["owner"] != attempt:
                return self._repeated(taken.current, digest, status)
            mine = taken.current
        try:
            made = await act()
        except RequestError:
            await self._note(self._store.delete(Delete(IDEMPOTENCY, place, VersionIs(mine.version))))
            raise
        except RpcFailed as failed:
            if not failed.error.may_have_effect:
                await self._note(self._store.delete(Delete(IDEMPOTENCY, place, VersionIs(mine.version))))
            raise
        done = Update(IDEMPOTENCY, place, set=_kept(made), condition=VersionIs(mine.version))
        await self._note(self._store.write(done))
        return json_response(made, status=status)

    def _repeated(self, found: Item, digest: str, status: int) -> web.Response:
        """The answer to a request that was sent before."""
        if found.attributes["request"] != digest:
            raise KeyReused(
                "this Idempotency-Key was used for a different request", hint="use a new key for each new request"
            )
        if found.attributes["done"]:
            return _again(found, status)
        sent_at = found.attributes["sent_at"]
        if isinstance(sent_at, int | float) and self._clock() - sent_at < IN_FLIGHT_SECONDS:
            raise InFlight(
                "a request with this Idempotency-Key is in flight",
                hint="ask again with the same key after the seconds in Retry-After",
                retry_after_seconds=1,
            )
        raise OutcomeUnknown(
            "nobody knows whether the request was carried out",
            hint="list what there is, and use a new key if it was not",
        )

    @staticmethod
    async def _note(write: Awaitable[object]) -> None:
        """Write what is known of the outcome. After a lost write the key says that nobody knows it."""
        try:
            await write
        except (ConditionFailed, StoreError) as error:
            log.warning("claim_not_written", reason=str(error))


def _digest(request: web.Request, wanted: BaseModel) -> str:
    return hashlib.sha256(f"{request.method} {request.path} {wanted.model_dump_json()}".encode()).hexdigest()


def _kept(made: ResponseBody) -> Attributes:
    if isinstance(made, ShownOnce):
        return {"done": True, "made": made.id}
    answer = made.model_dump_json()
    return {"done": True, "answer": answer if len(answer.encode()) <= KEPT_BYTES else ""}


def _again(found: Item, status: int) -> web.Response:
    made, answer = found.attributes.get("made"), found.attributes.get("answer")
    if made is not None:
        raise Conflict(
            f"the request with this Idempotency-Key has made {made}, whose secret was shown only then",
            hint=f"if you do not have the secret, revoke {made} and make another one with a new key",
        )
    if not answer:
        raise Conflict("the request was carried out, and its answer was too long to be kept", hint="list what there is")
    response = json_bytes(str(answer).encode(), status=status)
    response.headers[REPLAYED] = "true"
    return response
