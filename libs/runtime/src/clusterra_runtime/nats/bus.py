"""The bus: NATS with our envelope, ids and traces. Core messages, durable messages, dead letters."""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping

import nats.errors
import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    MESSAGE_ID,
    SCHEMA,
    TRACEPARENT,
    InvalidMessage,
    Message,
    decode,
    encode,
)
from clusterra_contracts.bus.subjects import Subject, UnknownSubject
from clusterra_contracts.bus.topology import DLQ
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import BaseModel

from clusterra_runtime import trace, tracing
from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.metrics import DEAD_LETTERS, DEAD_LETTERS_LEFT_OUT, HANDLED, family
from clusterra_runtime.nats import spans
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import last
from clusterra_runtime.rate_limit import RateLimit
from clusterra_runtime.settings import ServiceSettings

__all__ = [
    "BusUnavailable",
    "Client",
    "MessageRejected",
    "close",
    "connect",
    "dead_letter",
    "last",
    "publish",
    "publish_durable",
    "store",
    "subscribe",
]

log = structlog.get_logger(__name__)

DURABLE_SECONDS = 15.0
"""How long a durable publish is retried: a stream whose leader died has a new leader after about 6 s."""
ACK_SECONDS = 3.0
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 1.0
REASON = "x-dead-letter-reason"
ORIGIN = "x-dead-letter-subject"
CUT = "x-dead-letter-bytes"
"""The header with the size of a message of which only the beginning is kept."""
_LONGEST_REASON = 500
_KEPT_BYTES = 64 * 1024
_LONGEST_HEADER = 1024
_KEPT_HEADERS = frozenset({CONTENT_TYPE, CONTENT_ENCODING, SCHEMA, TRACEPARENT})
_GARBAGE = RateLimit(per_second=0.2, burst=DLQ.bounds.messages_per_subject)
"""The dead letters of each subject: who sends garbage must not fill the stream, the log, or our time."""
_TRY_AGAIN_CODES = frozenset({408, 429, 500, 503})


class MessageRejected(RuntimeError):
    """A message was rejected permanently: too large, over a quota, or not at the expected sequence."""

    def __init__(self, subject: str, code: int, reason: str) -> None:
        super().__init__(f"{subject}: the message was rejected: {reason} ({code})")
        self.code = code
        """JetStream's `err_code`: 10071 for a wrong last sequence, 10077 for a full subject."""


async def connect(settings: ServiceSettings, service: str, *, inbox_prefix: str | None = None) -> Client:
    """Connect to NATS, waiting for the server without limit. Use `client.is_connected` as a readiness condition."""
    client = Client()
    await client.open(settings, service, inbox_prefix or f"_INBOX_{service}")
    return client


async def close(client: Client) -> None:
    """Wait for running handlers, send buffered messages and close; also while NATS is away."""
    await client.drain()


async def publish(client: Client, subject: str, message: Message) -> None:
    """Send a message to the current subscribers. While NATS is away, up to 2 MiB are buffered.

    Raises BusUnavailable when the buffer is full, MessageRejected for a message over the payload limit.
    """
    body, headers = encode(message)
    with spans.publishing(subject):
        trace.inject(headers)
        try:
            await client.publish(subject, body, headers=headers)
        except (nats.errors.OutboundBufferLimitError, nats.errors.ConnectionClosedError) as error:
            raise BusUnavailable(f"{subject}: not connected to NATS, and the buffer is full") from error
        except nats.errors.MaxPayloadError as error:
            raise MessageRejected(subject, 10054, f"{len(body)} bytes are over the server's payload limit") from error


async def publish_durable(client: Client, subject: str, message: Message, *, message_id: str) -> int:
    """Store a message in the stream of its subject, once per id, and return its stream sequence.

    The message is retried for 15 s with the same id. Raises BusUnavailable after that, and MessageRejected when a retry
    is useless.
    """
    body, headers = encode(message, message_id=message_id)
    return await store(client, subject, body, headers)


async def store(client: Client, subject: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Store a body in the stream of a subject and return its stream sequence. The headers should contain an id.

    Raises as `publish_durable` does.
    """
    sent = dict(headers)
    with spans.publishing(subject) as span:
        if message_id := sent.get(MESSAGE_ID):
            span.set_attribute("messaging.message.id", message_id)
        trace.inject(sent)
        return await _store(client, subject, body, sent)


async def _store(client: Client, subject: str, body: bytes, headers: dict[str, str]) -> int:
    deadline = time.monotonic() + DURABLE_SECONDS
    backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
    try:
        return await retry(
            lambda: _store_once(client, subject, body, headers, deadline),
            backoff,
            on=_TryAgain,
            seconds=DURABLE_SECONDS,
        )
    except _TryAgain as error:
        raise BusUnavailable(
            f"{subject}: not stored within {DURABLE_SECONDS:g} s ({error}); send it again with the same id"
        ) from error


async def _store_once(client: Client, subject: str, body: bytes, headers: dict[str, str], deadline: float) -> int:
    # Never into nats-py's buffer: it would be sent later, even after the caller has given up.
    if not await client.wait_connected(deadline - time.monotonic()):
        raise _TryAgain("not connected to NATS")
    try:
        async with client.while_connected(ACK_SECONDS):
            answer = await client.request(subject, body, timeout=ACK_SECONDS, headers=headers)
    except nats.errors.NoRespondersError as error:
        raise _TryAgain("no stream takes this subject, or it has no leader") from error
    except nats.errors.MaxPayloadError as error:
        raise MessageRejected(subject, 10054, f"{len(body)} bytes are over the server's payload limit") from error
    except (TimeoutError, nats.errors.Error) as error:
        raise _TryAgain(str(error) or type(error).__name__) from error
    return _sequence(subject, answer)


class _TryAgain(Exception):
    """A message was not stored this time, but may be stored by another attempt."""


def _sequence(subject: str, answer: Msg) -> int:
    acknowledgement = json.loads(answer.data)
    if error := acknowledgement.get("error"):
        reason = str(error.get("description", "no reason given"))
        if error.get("code") in _TRY_AGAIN_CODES and error.get("err_code") != 10077:
            raise _TryAgain(reason)
        raise MessageRejected(subject, int(error.get("err_code", 0)), reason)
    return int(acknowledgement["seq"])


async def dead_letter(
    client: Client,
    subject: str,
    body: bytes,
    headers: Mapping[str, str] | None,
    reason: str,
    *,
    origin: str | None = None,
) -> None:
    """Store a message that cannot be handled as a dead letter, once, for the operators.

    For a message from a stream, `origin` is its position `<stream>-<sequence>`. Otherwise subject and body make the id,
    so that repeated garbage is stored once per deduplication window. Of a long body only the beginning is stored.
    Beyond a few on one subject they are only counted. Raises as `publish_durable` does.
    """
    DEAD_LETTERS.labels(family(subject)).inc()
    if not _GARBAGE.admits(subject):
        DEAD_LETTERS_LEFT_OUT.labels(family(subject)).inc()
        return
    position = origin or hashlib.sha256(subject.encode() + b"\0" + body).hexdigest()[:32]
    kept = {key: value[:_LONGEST_HEADER] for key, value in (headers or {}).items() if key.lower() in _KEPT_HEADERS}
    kept = {CONTENT_TYPE: "application/octet-stream"} | kept
    kept |= {MESSAGE_ID: f"dlq-{position}", REASON: reason[:_LONGEST_REASON], ORIGIN: subject}
    if len(body) > _KEPT_BYTES:
        kept[CUT] = str(len(body))
    log.warning("dead_letter", subject=subject, reason=reason, bytes=len(body), origin=origin)
    await store(client, subjects.dead_letter(subject), body[:_KEPT_BYTES], kept)


async def subscribe[M: BaseModel](
    client: Client,
    subject: str,
    model: type[M],
    handler: Callable[[Subject, M], Awaitable[None]],
) -> Subscription:
    """Pass each message on a subject to `handler`, one after the other and in order.

    A message that cannot be parsed becomes a dead letter. An exception of the handler is logged. Its message is lost,
    and so are messages that are sent while the client is not connected. Therefore use this for full states, and read a
    missed one with `last`.
    """

    async def receive(message: Msg) -> None:
        with spans.processing(message.subject, message.headers) as span:
            try:
                about = subjects.parse(message.subject)
                content = decode(model, message.data, message.headers)
            except (InvalidMessage, UnknownSubject) as error:
                HANDLED.labels(family(message.subject), "garbage").inc()
                client.work(bury(client, message, str(error)))
                return
            with structlog.contextvars.bound_contextvars(tenant=about.ref.tenant, cluster=about.ref.cluster):
                try:
                    await handler(about, content)
                    outcome = "done"
                except Exception:
                    outcome = "failed"
                    tracing.failed(span, "handler")
                    log.exception("handler_failed", subject=message.subject)
            HANDLED.labels(family(message.subject), outcome).inc()

    return await client.listen(subject, receive)


async def bury(client: Client, message: Msg, reason: str) -> None:
    """Send a core message to the dead letters; if that fails, only a log line remains."""
    try:
        await dead_letter(client, message.subject, message.data, message.headers, reason)
    except (BusUnavailable, MessageRejected) as error:
        log.error("dead_letter_lost", subject=message.subject, reason=str(error))  # noqa: TRY400
