"""Durable consumers: FastStream over our client. Only services with a durable consumer import this module.

FastStream pulls in batches, runs the handlers of a batch beside each other, stops gracefully, and acknowledges by what
a handler raises. Four things are done otherwise than it means them:

- `Broker._connect` takes our client. FastStream's own `nats.connect` closes for good on most errors of a server, and
  pulls from a consumer that is away without a pause (`nats/connection.py`, `nats/pull.py`).
- `Broker.stop` leaves a client that belongs to the service open. FastStream has no connection that it does not own.
- Bodies are decoded in the handler and not by a `decoder`. What FastStream's decoder raises is one more error of a
  handler, and its message is delivered again. Ours becomes a dead letter with its headers and its position.
- Spans, log context and metrics are in `_receive` and not in middlewares. They need the outcome (done, garbage,
  unavailable, given up), which a middleware could only guess from the exception that FastStream shows it.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import NoReturn

import structlog
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.bus.subjects import Subject, UnknownSubject
from clusterra_contracts.bus.topology import Consumer
from faststream.exceptions import NackMessage, RejectMessage
from faststream.middlewares import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from faststream.nats.subscriber.usecases import PullStreamSubscriber
from nats.aio.msg import Msg

from clusterra_runtime import tracing
from clusterra_runtime.metrics import HANDLED, family
from clusterra_runtime.nats import bus, spans
from clusterra_runtime.nats.bus import BusUnavailable, MessageRejected, dead_letter
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.lag import Lag
from clusterra_runtime.nats.pull import Pull
from clusterra_runtime.settings import ServiceSettings

log = structlog.get_logger(__name__)

WAIT_SECONDS = 30.0
"""How long one pull request waits; a message or a renewed connection ends it immediately."""
LONGEST_PAUSE_SECONDS = 30.0

type Decoder[M] = Callable[[bytes, Mapping[str, str] | None], M]
"""Parses a body with its headers. Raises InvalidMessage."""


class Broker(NatsBroker):
    """FastStream's NatsBroker over a client of its own, or over the service's client, which outlives the broker."""

    def __init__(self, settings: ServiceSettings, service: str, client: Client | None) -> None:
        super().__init__(
            settings.nats_url.split(","),
            ack_policy=AckPolicy.NACK_ON_ERROR,
            apply_types=False,
            graceful_timeout=settings.stop_grace_seconds,
            logger=None,
        )
        self._settings = settings
        self._service = service
        self._given = client

    @property
    def client(self) -> Client:
        """The client; the broker must have been started."""
        assert isinstance(self.connection, Client)  # noqa: S101 - `_connect` created it
        return self.connection

    async def _connect(self) -> Client:
        client = self._given or await bus.connect(self._settings, self._service)
        self.config.connect(client)
        return client

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Stop the subscribers, wait for their handlers, and close the client unless it belongs to the service."""
        if self._given is not None:
            self._connection = None
        await super().stop(exc_type, exc_val, exc_tb)


def broker(settings: ServiceSettings, service: str, *, client: Client | None = None) -> Broker:
    """Make a broker. With `client` it uses that client; it must then be stopped before the client is closed."""
    return Broker(settings, service, client)


def pause_seconds(deliveries: int) -> float:
    """The pause before a message is delivered again after its n-th failed delivery: 1, 2, 4, ... at most 30 s."""
    return min(2.0 ** (deliveries - 1), LONGEST_PAUSE_SECONDS)


class Durable[M]:
    """A subscription to one durable consumer. It may be started and stopped any number of times.

    A message is acknowledged after its handler has returned. Up to `batch_size` messages are handled concurrently, in
    no particular order. A handler must return within the consumer's `ack_wait`, or its message is delivered again.
    """

    def __init__(
        self,
        broker: Broker,
        consumer: Consumer,
        decoder: Decoder[M],
        handler: Callable[[Subject, M, int], Awaitable[None]],
        batch_size: int,
        outages: tuple[type[Exception], ...],
    ) -> None:
        self._broker = broker
        self._consumer = consumer
        self._decoder = decoder
        self._handler = handler
        self._batch_size = batch_size
        self._outages = outages
        self._waiting = False
        self._subscriber: PullStreamSubscriber | None = None
        self._lag = Lag(consumer)

    @property
    def working(self) -> bool:
        """Whether messages are being pulled from a consumer that exists: a condition of readiness."""
        pull = self._subscriber.subscription if self._subscriber is not None else None
        return isinstance(pull, Pull) and pull.served and self._broker.client.is_connected

    async def start(self) -> None:
        """Start pulling. The broker must have been started; the consumer need not exist yet."""
        if self._subscriber is not None:
            return
        subscriber = self._broker.subscriber(
            self._consumer.filter_subject,
            stream=JStream(self._consumer.stream, declare=False),
            durable=self._consumer.name,
            pull_sub=PullSub(batch_size=self._batch_size, timeout=WAIT_SECONDS),
            decoder=_undecoded,
            no_reply=True,
            persistent=False,
        )
        subscriber(self._receive)
        self._subscriber = subscriber
        await subscriber.start()
        self._lag.start(self._broker.client)

    async def stop(self) -> None:
        """Stop pulling and wait for running handlers."""
        subscriber, self._subscriber = self._subscriber, None
        if subscriber is not None:
            try:
                await subscriber.stop()
            finally:
                await self._lag.stop()

    async def _receive(self, message: NatsMessage) -> None:
        raw = message.raw_message
        deliveries = raw.metadata.num_delivered
        self._lag.delivered(raw)
        with (
            spans.processing(raw.subject, raw.headers, self._consumer.name) as span,
            structlog.contextvars.bound_contextvars(consumer=self._consumer.name),
        ):
            try:
                await self._handle(raw)
            except (InvalidMessage, UnknownSubject) as error:
                await self._bury(raw, str(error), "garbage")
            except Exception as error:
                tracing.failed(span, "handler")
                outage = isinstance(error, self._outages)
                if not outage:
                    log.exception("handler_failed", subject=raw.subject, deliveries=deliveries)
                elif not self._waiting:
                    log.warning("handler_waits", subject=raw.subject, reason=str(error) or type(error).__name__)
                    self._waiting = True
                if deliveries >= self._consumer.max_deliver:
                    await self._bury(raw, f"failed {deliveries} times, last: {type(error).__name__}", "given_up")
                HANDLED.labels(family(raw.subject), "unavailable" if outage else "failed").inc()
                raise NackMessage(delay=pause_seconds(deliveries) * random.uniform(0.5, 1.0)) from None  # noqa: S311
        if self._waiting:
            log.info("handler_goes_on", subject=raw.subject)
            self._waiting = False
        self._lag.handled(raw)
        HANDLED.labels(family(raw.subject), "done").inc()

    async def _handle(self, raw: Msg) -> None:
        about = subjects.parse(raw.subject)
        content = self._decoder(raw.data, raw.headers)
        with structlog.contextvars.bound_contextvars(tenant=about.ref.tenant, cluster=about.ref.cluster):
            await self._handler(about, content, raw.metadata.sequence.stream)

    async def _bury(self, raw: Msg, reason: str, outcome: str) -> NoReturn:
        origin = f"{raw.metadata.stream}-{raw.metadata.sequence.stream}"
        try:
            await dead_letter(self._broker.client, raw.subject, raw.data, raw.headers, reason, origin=origin)
        except (BusUnavailable, MessageRejected) as error:
            log.error("dead_letter_lost", subject=raw.subject, reason=str(error))  # noqa: TRY400
            raise NackMessage(delay=LONGEST_PAUSE_SECONDS) from error
        HANDLED.labels(family(raw.subject), outcome).inc()
        self._lag.handled(raw)
        raise RejectMessage


def durable[M](
    broker: Broker,
    consumer: Consumer,
    decoder: Decoder[M],
    handler: Callable[[Subject, M, int], Awaitable[None]],
    *,
    batch_size: int = 64,
    outages: tuple[type[Exception], ...] = (),
) -> Durable[M]:
    """Pass a consumer's messages to `handler` as (subject, message, stream sequence). Call `start` on the result.

    `decoder` makes a message of a body and its headers, such as `partial(decode, Event)`; it raises InvalidMessage.
    A message that cannot be parsed, or whose handler raises InvalidMessage, becomes a dead letter immediately. After
    any other exception it is delivered again, after about 1, 2, 4, ... s, and becomes a dead letter after `max_deliver`
    deliveries. `outages` are the exceptions that say that what the handler needs is away for a while: the log tells the
    beginning and the end of an outage, without a traceback.
    """
    return Durable(broker, consumer, decoder, handler, batch_size, outages)


async def _undecoded(message: NatsMessage) -> NatsMessage:
    return message
