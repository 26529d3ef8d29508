"""How far the archive has come in the stream of events, as the server knows it of all replicas together."""

import asyncio

import nats.errors
import nats.js.errors
import structlog
from clusterra_contracts.bus.topology import EVENT, EVENTS_ARCHIVE
from clusterra_runtime.nats.client import Client

from clusterra_events.archive import Bound

log = structlog.get_logger(__name__)

WAIT_SECONDS = 2.0
"""How long a page waits for the archive. It is some milliseconds behind the stream, unless its store is away."""
_EVERY_SECONDS = 0.02


class ArchiveProgress:
    """Asks the server for the archive's durable consumer."""

    def __init__(self, client: Client) -> None:
        self._js = client.jetstream()

    async def reach(self, position: int) -> Bound | None:
        """Return the bound of pages that are complete up to a position, once all events up to it are archived.

        None if that takes longer than WAIT_SECONDS, or if the server does not answer.
        """
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not await self._reached(position):  # noqa: ASYNC110 - the server tells it to nobody
                    await asyncio.sleep(_EVERY_SECONDS)
                stream = await self._js.stream_info(EVENT.name)
        except (TimeoutError, nats.errors.Error, nats.js.errors.Error) as error:
            log.info("archive_not_complete", position=position, reason=repr(error))
            return None
        # A stream of an earlier release counts from 1.
        return Bound(position, None if stream.config.first_seq else stream.created)

    async def come_to(self) -> int | None:
        """Return the position up to which all events are archived; None if the server does not answer."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                end = (await self._js.stream_info(EVENT.name)).state.last_seq
                consumer = await self._js.consumer_info(EVENT.name, EVENTS_ARCHIVE)
        except (TimeoutError, nats.errors.Error, nats.js.errors.Error) as error:
            log.info("archive_progress_unknown", reason=repr(error))
            return None
        if not consumer.num_pending and not consumer.num_ack_pending:
            return end
        return consumer.ack_floor.stream_seq if consumer.ack_floor is not None else None

    async def _reached(self, position: int) -> bool:
        consumer = await self._js.consumer_info(EVENT.name, EVENTS_ARCHIVE)
        if consumer.ack_floor is not None and consumer.ack_floor.stream_seq >= position:
            return True
        # The last events of the stream may be gone: then the consumer never acknowledges them.
        return not consumer.num_pending and not consumer.num_ack_pending
