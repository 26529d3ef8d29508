"""The healthcheck of a container, against a real health server."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import pytest
from clusterra_runtime.health import HealthServer
from clusterra_runtime.probe import main, ready
from clusterra_runtime.settings import ServiceSettings


class _Health:
    def __init__(self) -> None:
        self.failing: list[str] = []
        self.server = HealthServer(ServiceSettings(), lambda: self.failing)
        self.port = int(self.server.address.rpartition(":")[2])


@pytest.fixture
async def health() -> AsyncIterator[_Health]:
    health = _Health()
    health.server.start()
    yield health
    await asyncio.to_thread(health.server.stop)


async def test_a_ready_service_passes(health: _Health) -> None:
    passed, answer = await asyncio.to_thread(ready, health.port)

    assert passed
    assert json.loads(answer) == {"ready": True, "failing": []}


async def test_a_service_that_is_not_ready_fails_and_says_why(health: _Health) -> None:
    health.failing = ["connected to NATS"]

    passed, answer = await asyncio.to_thread(ready, health.port)

    assert not passed
    assert json.loads(answer)["failing"] == ["connected to NATS"]


def test_without_a_service_the_probe_fails() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    passed, answer = ready(port)

    assert not passed
    assert f"port {port}: " in answer


async def test_the_exit_code_follows_readiness(
    health: _Health, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTERRA_HEALTH_PORT", str(health.port))
    for failing, code in ([], 0), (["nats"], 1):
        health.failing = failing

        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main)

        assert ended.value.code == code
        assert json.loads(capsys.readouterr().out)["failing"] == failing
