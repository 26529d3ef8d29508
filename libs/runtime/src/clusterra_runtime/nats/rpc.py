"""Requests and replies on the bus, with typed requests, results and errors."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import nats.errors
import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, Message, decode, decode_foreign, encode
from clusterra_contracts.bus.subjects import Subject, UnknownSubject
from clusterra_contracts.identity import TenantRef, Wire
from clusterra_contracts.rpc.reply import Reply, RpcError, reply_of
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import BaseModel

from clusterra_runtime import trace, tracing
from clusterra_runtime.keyed_turns import KeyedTurns, TooManyWait
from clusterra_runtime.metrics import RPC_SECONDS, family
from clusterra_runtime.nats import spans
from clusterra_runtime.nats.bus import bury
from clusterra_runtime.nats.client import Client

log = structlog.get_logger(__name__)

FOREIGN_FAMILY = "edge"
"""The requests that are answered from outside the central side."""
FOREIGN_REPLY_BYTES = 2 * 1024 * 1024
"""The largest of those answers that is read, when decompressed: an agent's own message has 1 MiB at most."""
FOREIGN_REPLY_VALUES = 10_000
"""The most values of such an answer. The largest that is meant, a page of 1,000 files, has half of these."""
FOREIGN_TEXT = 2000
"""The most characters that are taken of a text in an error among those answers: it is logged and stored."""

TENANT_SHARE = 4
"""On a subject of all tenants, one tenant has at most this part, a quarter, of the requests answered at once."""
MAX_WAITING = 256
"""How many more requests of a tenant wait for their turns there. Others are answered `unavailable` at once."""


class RpcFailed(Exception):
    """A request failed. A handler raises it to answer with an error; `call` raises the answered error."""

    def __init__(self, error: RpcError) -> None:
        super().__init__(f"{error.kind}: {error.detail}")
        self.error = error


class NotServed(RpcFailed):
    """Nobody serves the subject at the moment, so that nobody got the request."""


async def call[T: Wire](
    client: Client, subject: str, request: Message, result: type[T], *, timeout_seconds: float = 5.0
) -> T:
    """Send a request and wait for its result.

    Raises RpcFailed with the answered error; with the kind `unavailable` if no answer comes in time or there is no
    connection, and then NotServed if nobody serves the subject; with the kind `invalid` if the request is too large. An
    answer that is not a reply is `unavailable` and `internal`.
    """
    with spans.requesting(subject) as span:
        try:
            return await _call(client, subject, request, result, timeout_seconds)
        except RpcFailed as failed:
            tracing.failed(span, failed.error.kind)
            raise


async def _call[T: Wire](client: Client, subject: str, request: Message, result: type[T], timeout_seconds: float) -> T:
    body, headers = encode(request)
    trace.inject(headers)
    deadline = time.monotonic() + timeout_seconds
    # Never into nats-py's buffer: it would be sent later, although the caller was told that the request failed.
    if not await client.wait_connected(timeout_seconds):
        raise RpcFailed(_not_sent(f"{subject}: not connected to the bus"))
    try:
        async with client.while_connected(deadline - time.monotonic()):
            answer = await client.request(subject, body, timeout=timeout_seconds, headers=headers)
    except nats.errors.NoRespondersError:
        raise NotServed(_not_sent(f"{subject}: no service answers it at the moment")) from None
    except TimeoutError:
        raise RpcFailed(_unavailable(f"{subject}: no answer within {timeout_seconds:g} s")) from None
    except nats.errors.MaxPayloadError:
        raise RpcFailed(RpcError(kind="invalid", detail=f"{subject}: the request is too large")) from None
    except nats.errors.ConnectionReconnectingError:
        raise RpcFailed(_unavailable(f"{subject}: the connection was lost before the answer")) from None
    except nats.errors.Error as error:
        raise RpcFailed(_unavailable(f"{subject}: {error}")) from error
    reply: Reply[T]
    try:
        if family(subject) == FOREIGN_FAMILY:
            reply = decode_foreign(
                reply_of(result),
                answer.data,
                answer.headers,
                max_bytes=FOREIGN_REPLY_BYTES,
                max_values=FOREIGN_REPLY_VALUES,
            )
        else:
            reply = decode(reply_of(result), answer.data, answer.headers)
    except InvalidMessage as error:
        log.warning("reply_unreadable", subject=subject, reason=str(error))
        raise RpcFailed(
            RpcError(
                kind="unavailable", detail=f"{subject}: the answer cannot be read", internal=True, effect="unknown"
            )
        ) from error
    if reply.error is not None:
        raise RpcFailed(_cut(reply.error) if family(subject) == FOREIGN_FAMILY else reply.error)
    assert reply.result is not None  # noqa: S101 - the model ensures it
    return reply.result


async def serve[M: BaseModel, T: Wire](
    client: Client,
    subject: str,
    request: type[M],
    handler: Callable[[Subject, M], Awaitable[T]],
    *,
    queue: str = "",
    concurrency: int = 64,
) -> Subscription:
    """Answer the requests on the subject of a cluster, at most `concurrency` at once.

    Servers with the same `queue` share the requests. A request that cannot be parsed is answered `invalid` and becomes
    a dead letter. An RpcFailed of the handler is answered with its error. Any other exception is logged and answered
    `unavailable` without its text. On a subject of all tenants, the requests of one take at most a quarter of
    `concurrency`. MAX_WAITING more of them wait; further ones are answered `unavailable` at once, without effect.
    """
    return await _serve(client, subject, partial(_answer, request, handler, subjects.parse), queue, concurrency)


async def serve_tenant[M: BaseModel, T: Wire](
    client: Client,
    subject: str,
    request: type[M],
    handler: Callable[[TenantRef, M], Awaitable[T]],
    *,
    queue: str = "",
    concurrency: int = 64,
    secret: bool = False,
) -> Subscription:
    """Answer the requests on a subject of a tenant, otherwise as `serve` does.

    `secret`: the requests hold secrets, so that none becomes a dead letter.
    """
    answer = partial(_answer, request, handler, subjects.parse_tenant)
    return await _serve(client, subject, answer, queue, concurrency, secret=secret)


async def _serve[T: Wire](
    client: Client,
    subject: str,
    answer: Callable[[Msg], Awaitable[Reply[T]]],
    queue: str,
    concurrency: int,
    *,
    secret: bool = False,
) -> Subscription:
    slots = asyncio.Semaphore(concurrency)
    turns = KeyedTurns[str](max(concurrency // TENANT_SHARE, 1), MAX_WAITING)

    async def handle(message: Msg) -> None:
        started = time.perf_counter()
        with spans.answering(message.subject, message.headers) as span:
            try:
                reply = await answer(message)
                garbage = None
            except (InvalidMessage, UnknownSubject) as error:
                garbage = str(error)
                reply = Reply[T](error=RpcError(kind="invalid", detail=garbage))
            finally:
                slots.release()
            outcome = reply.error.kind if reply.error else "ok"
            if outcome == "unavailable":
                # The other kinds are the caller's errors, and the caller's span shows them.
                tracing.failed(span, outcome)
            await _respond(client, message, reply)
            RPC_SECONDS.labels(family(message.subject), outcome).observe(time.perf_counter() - started)
            if garbage is not None and secret:
                log.warning("request_unreadable", subject=message.subject, reason=garbage)
            elif garbage is not None:
                await bury(client, message, garbage)

    async def receive(message: Msg) -> None:
        await slots.acquire()
        client.work(handle(message))

    async def take_turn(message: Msg) -> None:
        try:
            async with turns.turn(_tenant_token(message.subject)):
                await slots.acquire()
                await handle(message)
        except TooManyWait:
            error = _not_sent(f"{message.subject}: too many requests of this tenant are under way")
            await _respond(client, message, Reply[T](error=error))
            RPC_SECONDS.labels(family(message.subject), error.kind).observe(0.0)

    async def receive_of_all(message: Msg) -> None:
        client.work(take_turn(message))

    return await client.listen(subject, receive_of_all if _tenant_token(subject) == "*" else receive, queue)


def _tenant_token(subject: str) -> str:
    return subject.split(".", 2)[1]


async def _answer[S, M: BaseModel, T: Wire](
    model: type[M], handler: Callable[[S, M], Awaitable[T]], parse: Callable[[str], S], message: Msg
) -> Reply[T]:
    about = parse(message.subject)
    request = decode(model, message.data, message.headers)
    ref = about.ref if isinstance(about, Subject) else about
    with structlog.contextvars.bound_contextvars(
        tenant=getattr(ref, "tenant", None), cluster=getattr(ref, "cluster", None)
    ):
        try:
            return Reply(result=await handler(about, request))
        except RpcFailed as failed:
            return Reply(error=failed.error)
        except Exception:
            log.exception("request_failed", subject=message.subject)
            return Reply(
                error=RpcError(
                    kind="unavailable",
                    detail="the request failed because of an internal error",
                    hint=f"try again; the logs have details under trace {trace.trace_id()}",
                )
            )


async def _respond[T: Wire](client: Client, message: Msg, reply: Reply[T]) -> None:
    if not message.reply:
        return
    body, headers = encode(reply)
    trace.inject(headers)
    try:
        await client.publish(message.reply, body, headers=headers)
    except nats.errors.MaxPayloadError:
        log.warning("reply_too_large", subject=message.subject, bytes=len(body))
        hint = "ask for a smaller page"
        error = RpcError(
            kind="unavailable", detail="the answer is too large", hint=hint, internal=True, effect="unknown"
        )
        await _respond(client, message, Reply[T](error=error))
    except nats.errors.Error as error:
        log.warning("reply_not_sent", subject=message.subject, reason=str(error))


def _cut(error: RpcError) -> RpcError:
    return error.model_copy(update={"detail": error.detail[:FOREIGN_TEXT], "hint": error.hint[:FOREIGN_TEXT]})


def _unavailable(detail: str) -> RpcError:
    return RpcError(kind="unavailable", detail=detail, hint="try again in a moment", effect="unknown")


def _not_sent(detail: str) -> RpcError:
    return RpcError(kind="unavailable", detail=detail, hint="try again in a moment", effect="none")
