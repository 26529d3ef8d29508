"""The lag of durable consumers, on a real server: it falls on a quiet stream and rises with a stuck consumer."""

import asyncio

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import lag
from clusterra_runtime.nats.client import Client
from clusterra_runtime.settings import ServiceSettings
from prometheus_client import REGISTRY

from .test_durable import consumer_of, create, handled_by, publish_event


def figure(name: str, consumer: str) -> float | None:
    return REGISTRY.get_sample_value(f"clusterra_consumer_{name}", {"consumer": consumer})


async def test_the_lag_is_zero_once_nothing_waits_and_gone_once_the_consumer_stops(
    settings: ServiceSettings, client: Client, ref: ClusterRef
) -> None:
    lags: list[float | None] = []
    consumer = consumer_of(ref)

    async def handler(_about: Subject, _event: Event, _sequence: int) -> None:
        lags.append(figure("lag_seconds", consumer.name))

    await create(client, consumer)
    await publish_event(client, ref, 1)
    await asyncio.sleep(0.2)  # the age of the message
    async with handled_by(settings, consumer, handler):
        await until(lambda: lags, seconds=90, what="the message")
        await until(lambda: figure("lag_seconds", consumer.name) == 0.0, seconds=30, what="a lag of 0")

        assert lags[0] is not None
        assert lags[0] >= 0.2
        assert figure("pending_messages", consumer.name) == 0.0

    assert figure("lag_seconds", consumer.name) is None
    assert figure("pending_messages", consumer.name) is None


async def test_the_lag_rises_while_a_handler_is_stuck(
    settings: ServiceSettings, client: Client, ref: ClusterRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "POLL_SECONDS", 0.1)
    release = asyncio.Event()
    consumer = consumer_of(ref)

    async def handler(_about: Subject, _event: Event, _sequence: int) -> None:
        await release.wait()

    await create(client, consumer)
    async with handled_by(settings, consumer, handler):
        for version in range(150):
            await publish_event(client, ref, version)
        await until(lambda: (figure("pending_messages", consumer.name) or 0) > 20, seconds=90, what="waiting messages")
        await until(lambda: (figure("lag_seconds", consumer.name) or 0) > 1, seconds=90, what="a lag")

        release.set()
        await until(lambda: figure("lag_seconds", consumer.name) == 0.0, seconds=90, what="a lag of 0")
