"""Each service in its container, on real NATS and DynamoDB: healthy, read-only, not root, and ended by SIGTERM."""

import json
import time

import pytest
from clusterra_lab.machine.process import until
from container_engine import container, docker, done, inspect
from service_containers import CONFINED, SERVICES, Surroundings, image

pytestmark = pytest.mark.containers

HEALTHY_SECONDS = 180
GRACE_SECONDS = 20
"""CLUSTERRA_STOP_GRACE_SECONDS."""
PROBE = ("python", "-I", "-m", "clusterra_runtime.probe")


async def _logged(identity: str) -> list[dict[str, object]]:
    lines = (await done("logs", identity)).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_becomes_healthy_and_ends_with_0_at_sigterm(service: str, surroundings: Surroundings) -> None:
    async with container(image(service), *surroundings.options(service)) as identity:

        async def healthy() -> bool:
            state = (await inspect(identity))["State"]
            assert state["Running"], await done("logs", identity)
            return bool(state["Health"]["Status"] == "healthy")

        await until(healthy, seconds=HEALTHY_SECONDS, what=f"{service} to be healthy", every=0.2)

        first = (await done("exec", identity, "cat", "/proc/1/status")).splitlines()
        assert "Uid:\t65532\t65532\t65532\t65532" in first
        assert "CapEff:\t0000000000000000" in first
        assert "NoNewPrivs:\t1" in first

        started = time.monotonic()
        await done("kill", "--signal=SIGTERM", identity)
        exit_code = await done("wait", identity)

        assert (exit_code, time.monotonic() - started < GRACE_SECONDS) == ("0", True)
        logged = await _logged(identity)
        assert logged[-1]["event"] == "service_stopped"
        assert [line for line in logged if line["level"] == "error"] == []


@pytest.mark.parametrize("service", SERVICES)
async def test_health_and_metrics_are_served_to_other_containers(service: str, surroundings: Surroundings) -> None:
    fetch = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
    alias = f"--network-alias={service}"
    async with container(image(service), alias, *surroundings.options(service)) as identity:

        async def ready() -> bool:
            return (await docker("exec", identity, *PROBE)).returncode == 0

        await until(ready, seconds=HEALTHY_SECONDS, what=f"{service} to be ready", every=0.2)

        options = surroundings.options("admin")
        url = f"http://{service}:8081/metrics"
        metrics = await done("run", "--rm", "--entrypoint=python", *options, image("admin"), "-c", fetch, url)

    assert "process_cpu_seconds_total" in metrics


async def test_a_service_without_nats_is_not_ready_and_says_so(images: None) -> None:
    options = (*CONFINED, "--network=none", "--env=CLUSTERRA_NATS_URL=nats://127.0.0.1:4222")
    async with container(image("proxy"), *options) as identity:

        async def told() -> bool:
            return any(line["event"] == "nats_error" for line in await _logged(identity))

        await until(told, seconds=HEALTHY_SECONDS, what="the proxy to miss NATS", every=0.2)
        probed = await docker("exec", identity, *PROBE)

        assert probed.returncode == 1
        assert json.loads(probed.stdout)["ready"] is False


async def test_a_service_without_its_tables_says_which_command_makes_them(surroundings: Surroundings) -> None:
    options = (*surroundings.options("events"), "--env=CLUSTERRA_TABLE_PREFIX=nowhere-")
    async with container(image("events"), *options) as identity:

        async def told() -> bool:
            return "clusterra-admin tables apply" in (await done("logs", identity))

        await until(told, seconds=HEALTHY_SECONDS, what="the events service to miss its table", every=0.2)

        assert (await docker("exec", identity, *PROBE)).returncode == 1


async def test_a_probe_without_a_service_fails_and_names_the_port(images: None) -> None:
    probed = await docker("run", "--rm", *CONFINED, "--network=none", "--entrypoint=python", image("proxy"), *PROBE[1:])

    assert probed.returncode == 1
    assert "port 8081" in probed.stdout


async def test_the_gateway_without_settings_names_each_that_it_needs(images: None) -> None:
    ended = await docker("run", "--rm", *CONFINED, "--network=none", image("gateway"))

    assert ended.returncode == 1
    assert "oidc_issuer\n  Field required" in ended.stdout
    assert "oidc_client_id\n  Field required" in ended.stdout
