"""Prices in Prometheus' text format, and from an endpoint that sometimes fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from aiohttp import web
from clusterra_contracts.heartbeat import Price
from clusterra_edge_agent.kubernetes.machines.karpenter import INSTANCE_FAMILIES
from clusterra_edge_agent.kubernetes.machines.prices import METRIC, Prices, parse_prices
from clusterra_lab.machine.process import until
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest

LABELS = ("capacity_type", "instance_type", "zone")
OURS = sorted(family for families in INSTANCE_FAMILIES.values() for family in families)
values = st.one_of(st.floats(), st.sampled_from((0.0, -1.0, 0.0816, 12.5, float("inf"), float("nan"))))
offerings = st.dictionaries(
    st.tuples(
        st.sampled_from(("spot", "on-demand", "reserved", "")),
        st.tuples(
            st.sampled_from((*OURS, "c7gd", "g6e", "gr6", "m5", "xm7g")), st.sampled_from(("large", "2xlarge"))
        ).map(".".join),
        st.sampled_from(("eu-west-1a", "eu-west-1b", "")),
    ),
    values,
    max_size=30,
)


def exposition(prices: dict[tuple[str, str, str], float]) -> bytes:
    """Returns metrics as a real client library writes them, with another metric whose name has the same prefix."""
    registry = CollectorRegistry()
    gauge = Gauge(METRIC, "What an offering costs", LABELS, registry=registry)
    other = Gauge(f"{METRIC}_old", "Something else", LABELS, registry=registry)
    for labels, value in prices.items():
        gauge.labels(*labels).set(value)
        other.labels(*labels).set(1.0)
    return generate_latest(registry)


@given(offerings)
def test_only_prices_of_our_families_are_parsed(prices: dict[tuple[str, str, str], float]) -> None:
    found = {
        (price.lifecycle, price.instance_type, price.zone): price.usd_per_hour
        for price in parse_prices(exposition(prices).splitlines(keepends=True))
    }
    assert found == {
        (kind, instance_type, zone): value
        for (kind, instance_type, zone), value in prices.items()
        if kind in ("spot", "on-demand")
        and zone
        and instance_type.partition(".")[0] in OURS
        and 0 < value < float("inf")
    }


@given(st.one_of(st.text(), st.text(alphabet='{}",=\\# 0123456789.eE+-nNaAiIfFzone\n')))
def test_a_malformed_line_raises_at_most_a_value_error(text: str) -> None:
    line = f'{METRIC}{{instance_type="m7g.large"{text}\n'.encode()
    with suppress(ValueError):
        assert all(price.usd_per_hour > 0 for price in parse_prices([line]))


class Karpenter:
    """Serves the given metrics; None is an error status."""

    def __init__(self) -> None:
        self.answer: bytes | None = b""
        self.scrapes = 0

    async def metrics(self, _request: web.Request) -> web.Response:
        self.scrapes += 1
        if self.answer is None:
            return web.Response(status=503)
        return web.Response(body=self.answer, content_type="text/plain")


@pytest.fixture
async def karpenter() -> AsyncIterator[tuple[Karpenter, str]]:
    karpenter, app = Karpenter(), web.Application()
    app.router.add_get("/metrics", karpenter.metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield karpenter, f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    finally:
        await runner.cleanup()


def priced(usd_per_hour: float) -> bytes:
    return exposition({("spot", "m7g.large", "eu-west-1a"): usd_per_hour})


async def test_a_price_is_known_as_long_as_scrapes_succeed(karpenter: tuple[Karpenter, str]) -> None:
    endpoint, url = karpenter
    changes: list[tuple[Price, ...] | None] = []
    endpoint.answer = priced(0.03)
    prices = Prices(url, lambda: changes.append(prices.current), every_seconds=0.02)
    assert prices.current is None
    running = asyncio.create_task(prices.run())

    async def known(what: str, *usd_per_hour: float) -> None:
        def reached() -> bool:
            return prices.current is not None and [price.usd_per_hour for price in prices.current] == [*usd_per_hour]

        await until(reached, seconds=60, what=what)

    async def unknown(what: str) -> None:
        await until(lambda: prices.current is None, seconds=60, what=what)

    try:
        await known("the price", 0.03)
        endpoint.answer = priced(0.05)
        await known("the new price", 0.05)
        endpoint.answer = None
        await unknown("the failed scrape")
        endpoint.answer = exposition({})
        await known("the empty list of prices")
        endpoint.answer = METRIC.encode() + b'{instance_type="m7g.large",zone=\n'
        await unknown("the malformed line")
        endpoint.answer = priced(0.03)
        await known("the price again", 0.03)
        scrapes = endpoint.scrapes
        await until(lambda: endpoint.scrapes > scrapes + 3, seconds=60, what="more scrapes")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert len(changes) == 6, "each change is notified once, and nothing else"


async def test_an_expired_price_is_unknown(karpenter: tuple[Karpenter, str], monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, url = karpenter
    endpoint.answer = priced(0.03)
    prices = Prices(url, lambda: None)
    running = asyncio.create_task(prices.run())
    try:
        await until(lambda: prices.current, seconds=60, what="the price")
        monkeypatch.setattr("clusterra_edge_agent.kubernetes.machines.prices.VALID_SECONDS", 0.0)
        assert prices.current is None
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_an_unreachable_endpoint_gives_no_price() -> None:
    notified: list[None] = []
    prices = Prices("http://127.0.0.1:9/metrics", lambda: notified.append(None), every_seconds=0.01)
    running = asyncio.create_task(prices.run())

    try:
        await until(lambda: prices._failing, seconds=60, what="a failed scrape")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    assert prices.current is None
    assert not notified
