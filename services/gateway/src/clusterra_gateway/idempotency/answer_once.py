"""Carries out a request that makes something at most once for an Idempotency-Key, and gives its answer again.

A secret is kept nowhere. So of an answer with a secret only the id is kept: whoever lost that answer gets the id, and
makes a new one.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from clusterra_contracts.rpc.deadlines import HTTP_SECONDS
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.store import Store
from pydantic import BaseModel

from clusterra_gateway.http.answers.responses import ResponseBody, json_bytes, json_response
from clusterra_gateway.http.requests.errors import Conflict
from clusterra_gateway.idempotency.key import REPLAYED, idempotency_key
from clusterra_gateway.idempotency.once import Once

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
        self._once = Once(
            store,
            in_flight_seconds=IN_FLIGHT_SECONDS,
            unknown_hint="list what there is, and use a new key if it was not",
            clock=clock,
        )

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
