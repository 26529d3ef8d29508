"""Telling what happened to workers, each fact until it is stored."""

import asyncio
from contextlib import suppress

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.events import EventPublisher

from clusterra_edge_agent.substrate.leadership import Leadership
from clusterra_edge_agent.substrate.port import Substrate, SubstrateUnavailable

log = structlog.get_logger(__name__)

RETRY_SECONDS = 5.0


async def tell_news(publisher: EventPublisher, ref: ClusterRef, substrate: Substrate, leadership: Leadership) -> None:
    """Tell all untold facts at every change while this agent holds, oldest first; runs until cancelled."""
    changed = asyncio.Event()
    substrate.changes.listen(changed)
    leadership.changes.listen(changed)
    while True:
        changed.clear()
        timeout_seconds = None
        try:
            for news in substrate.untold() if leadership.held else ():
                await publisher.tell(ref, news.fact, version=news.version, time=news.time)
                await substrate.told(news)
        except (bus.BusUnavailable, bus.MessageRefused, SubstrateUnavailable) as error:
            log.warning("news_kept_for_later", reason=str(error))
            timeout_seconds = RETRY_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await changed.wait()
