"""Carries out a request at most once for an Idempotency-Key. Submits have rules of their own: `submits.keys`.

The answer to a request is kept, and given again when the request is repeated. A secret is kept nowhere. So of an answer
with a secret only the id is kept: whoever lost that answer gets the id, and makes a new secret.
"""

import hashlib
import time
import uuid
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from clusterra_contracts.rpc.deadlines import CANCEL, HTTP_SECONDS
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.store import Store, StoreError
from pydantic import BaseModel

from clusterra_gateway.http.answers.responses import ResponseBody, json_bytes, json_response
from clusterra_gateway.http.requests.errors import Conflict, InFlight, KeyReused, OutcomeUnknown, RequestError
from clusterra_gateway.idempotency.claims import OWNER, REQUEST, Claims
from clusterra_gateway.idempotency.key import REPLAYED, ScopedKey, idempotency_key

log = structlog.get_logger()

CHANGE_SECONDS = 2 * CANCEL.gateway
"""A change of a job that has no outcome after this time has been given up by everybody who worked on it."""
IN_FLIGHT_SECONDS = HTTP_SECONDS
"""A request without an answer after this time has been given up by everybody who worked on it."""
KEPT_BYTES = 256 * 1024
"""The longest answer that is kept. An item of the store has at most 400 KB."""

type Act = Callable[[], Awaitable[Attributes]]
"""Carries out the request, and returns what to keep of its outcome."""
type Making = Callable[[], Awaitable[ResponseBody]]
"""Carries out the request, and returns its answer."""


class Once:
    """A key is claimed, and then done; or free again after a failure without effect."""

    def __init__(
        self, store: Store, *, in_flight_seconds: float, unknown_hint: str, clock: Callable[[], float] = time.time
    ) -> None:
        """`in_flight_seconds`: after that time, everybody who worked on a request without an outcome has given it up.

        `unknown_hint` says how to find out whether such a request was carried out.
        """
        self._claims = Claims(store)
        self._in_flight_seconds = in_flight_seconds
        self._unknown_hint = unknown_hint
        self._clock = clock

    async def run(self, place: Key, digest: str, act: Act) -> Item | None:
        """Acts, unless the request was carried out before. In that case returns the item with its stored result.

        `digest` distinguishes requests with the same key. Raises KeyReused, InFlight, OutcomeUnknown, StoreUnavailable,
        and what `act` raises: RequestError leaves the key free, and so does RpcFailed that certainly had no effect.
        """
        now = self._clock()
        claim: Attributes = {REQUEST: digest, OWNER: uuid.uuid4().hex, "sent_at": now, "done": False}
        found, mine = await self._claims.claim(place, claim, now)
        if not mine:
            return self._done_before(found, digest)
        try:
            kept = await act()
        except (RequestError, RpcFailed) as failed:
            if not (isinstance(failed, RpcFailed) and failed.error.may_have_effect):
                await self._note(self._claims.release(place, found.version))
            raise
        await self._note(self._claims.change(place, found.version, {"done": True, **kept}))
        return None

    def _done_before(self, found: Item, digest: str) -> Item:
        if found.attributes[REQUEST] != digest:
            raise KeyReused(
                "this Idempotency-Key was used for a different request", hint="use a new key for each new request"
            )
        if found.attributes["done"]:
            return found
        sent_at = found.attributes["sent_at"]
        if isinstance(sent_at, int | float) and self._clock() - sent_at < self._in_flight_seconds:
            raise InFlight(
                "a request with this Idempotency-Key is in flight",
                hint="ask again with the same key after the seconds in Retry-After",
                retry_after_seconds=1,
            )
        raise OutcomeUnknown("nobody knows whether the request was carried out", hint=self._unknown_hint)

    @staticmethod
    async def _note(write: Awaitable[object]) -> None:
        """Stores the known outcome. If this write is lost, the key says that the outcome is unknown."""
        try:
            if not await write:
                log.warning("claim_not_written", reason="it has changed")
        except StoreError as error:
            log.warning("claim_not_written", reason=str(error))


class ChangeOnce:
    """Changes of jobs. A key belongs to one person on one cluster, and to one change."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._once = Once(
            store,
            in_flight_seconds=CHANGE_SECONDS,
            unknown_hint="read the job, and use a new key if it was not",
            clock=clock,
        )

    async def run(self, key: ScopedKey, what: str, act: Callable[[], Awaitable[None]]) -> bool:
        """Act, unless the key says that it was done. Returns whether it was done before. `what` tells requests apart.

        A change that failed leaves its key free, and so does one that reached nobody. Raises KeyReused, InFlight,
        OutcomeUnknown, RpcFailed, StoreUnavailable.
        """

        async def change() -> Attributes:
            await act()
            return {}

        digest = hashlib.sha256(what.encode()).hexdigest()
        return await self._once.run(key.place("change"), digest, change) is not None


class ShownOnce(ResponseBody):
    """An answer with a secret, which is shown only this once."""

    id: str


class AnswerOnce:
    """The keys of requests that make something. A key belongs to one person in one tenant, and to one request."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._once = Once(
            store,
            in_flight_seconds=IN_FLIGHT_SECONDS,
            unknown_hint="list what there is, and use a new key if it was not",
            clock=clock,
        )

    async def answer(
        self,
        request: web.Request,
        owner: str,
        wanted: BaseModel,
        act: Making,
        *,
        status: int = 201,
    ) -> web.Response:
        """Act and answer, or answer as before. `owner` is the person with their tenant, `wanted` the body.

        A request that fails leaves its key free. Raises KeyReused, InFlight, OutcomeUnknown, Conflict and
        StoreUnavailable, and what `act` raises.
        """
        key = idempotency_key(request)
        if key is None:
            return json_response(await act(), status=status)
        made: list[ResponseBody] = []

        async def make() -> Attributes:
            made.append(await act())
            return _kept(made[0])

        before = await self._once.run(Key(f"{owner}#{key}", "answer"), _digest(request, wanted), make)
        return _again(before, status) if before is not None else json_response(made[0], status=status)


def _digest(request: web.Request, wanted: BaseModel) -> str:
    return hashlib.sha256(f"{request.method} {request.path} {wanted.model_dump_json()}".encode()).hexdigest()


def _kept(made: ResponseBody) -> Attributes:
    if isinstance(made, ShownOnce):
        return {"made": made.id}
    answer = made.model_dump_json()
    return {"answer": answer if len(answer.encode()) <= KEPT_BYTES else ""}


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
