"""Current prices of machines, from Karpenter's metrics."""

import asyncio
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator

import aiohttp
import structlog
from clusterra_contracts.heartbeat import Price
from prometheus_client.parser import text_string_to_metric_families

from clusterra_edge_agent.kubernetes.machines.karpenter import INSTANCE_FAMILIES
from clusterra_edge_agent.kubernetes.machines.resources import lifecycle

log = structlog.get_logger(__name__)

METRIC = "karpenter_cloudprovider_instance_type_offering_price_estimate"
"""A gauge of US dollars per hour, with the labels `instance_type`, `capacity_type` and `zone`."""
SCRAPE_SECONDS = 30.0
VALID_SECONDS = 90.0
"""How long a price is valid: as long as the central side keeps a price that is not reported again."""
_TIME_LIMIT = aiohttp.ClientTimeout(total=5.0)

_RELEVANT_LINE = re.compile(
    rf'{METRIC}\{{[^}}]*\binstance_type="(?:{"|".join(sum(INSTANCE_FAMILIES.values(), ()))})\.'.encode()
)
"""Matches the lines of our instance families. Karpenter lists every machine of its cloud: thousands of lines."""


class Prices:
    """The current prices, scraped every 30 s. A failed scrape clears them: an old price is no better than a guess."""

    def __init__(self, url: str, on_change: Callable[[], None], *, every_seconds: float = SCRAPE_SECONDS) -> None:
        """`on_change` is called when the prices have changed."""
        self._url = url
        self._on_change = on_change
        self._every_seconds = every_seconds
        self._prices: tuple[Price, ...] | None = None
        self._scraped_at = 0.0
        self._failing = False

    @property
    def current(self) -> tuple[Price, ...] | None:
        """The current prices. None while they are unknown."""
        return self._prices if time.monotonic() - self._scraped_at < VALID_SECONDS else None

    async def run(self) -> None:
        """Scrapes until cancelled."""
        async with aiohttp.ClientSession(timeout=_TIME_LIMIT, raise_for_status=True) as http:
            while True:
                last, self._prices = self._prices, await self._scrape(http)
                self._scraped_at = time.monotonic()
                if self._prices != last:
                    self._on_change()
                await asyncio.sleep(self._every_seconds)

    async def _scrape(self, http: aiohttp.ClientSession) -> tuple[Price, ...] | None:
        try:
            async with http.get(self._url) as answer:
                prices = tuple(parse_prices([line async for line in answer.content if _RELEVANT_LINE.match(line)]))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            if not self._failing:
                log.warning("prices_not_scraped", url=self._url, reason=str(error) or type(error).__name__)
            self._failing = True
            return None
        self._failing = False
        return prices


def parse_prices(lines: Iterable[bytes]) -> Iterator[Price]:
    """Yields the prices of our instance families from lines in Prometheus' text format, each offering once.

    Karpenter reports 0 for an offering without a known price; these are skipped. Raises ValueError for a malformed
    line.
    """
    ours = b"".join(line for line in lines if _RELEVANT_LINE.match(line)).decode()
    found: dict[tuple[str, str, str], Price] = {}
    for family in text_string_to_metric_families(ours):
        for sample in family.samples:
            kind, zone = lifecycle(sample.labels.get("capacity_type", "")), sample.labels.get("zone", "")
            if kind is None or not zone or not (math.isfinite(sample.value) and sample.value > 0):
                continue
            instance_type = sample.labels["instance_type"]
            found[instance_type, kind, zone] = Price(
                instance_type=instance_type, lifecycle=kind, zone=zone, usd_per_hour=sample.value
            )
    yield from found.values()
