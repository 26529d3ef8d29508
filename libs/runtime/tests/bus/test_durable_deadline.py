"""A durable publish sends nothing after the time in which it may be retried."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import nats.errors
import pytest
from clusterra_runtime.nats import bus


class _Unanswered:
    """A connected client whose requests nobody answers."""

    def __init__(self) -> None:
        self.sent_at: list[float] = []

    async def wait_connected(self, _timeout_seconds: float) -> bool:
        return True

    @asynccontextmanager
    async def while_connected(self, _timeout_seconds: float) -> AsyncIterator[None]:
        yield

    async def request(self, *_message: Any, **_options: Any) -> None:
        self.sent_at.append(time.monotonic())
        raise nats.errors.NoRespondersError


async def test_no_attempt_begins_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus, "DURABLE_SECONDS", 2.0)
    client = _Unanswered()
    began = time.monotonic()

    with pytest.raises(bus.BusUnavailable):
        await bus.store(cast(bus.Client, client), "event.t.c.kind", b"{}", {})

    assert len(client.sent_at) > 1
    assert client.sent_at[-1] - began < 2.0
