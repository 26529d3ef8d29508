"""compose.yaml runs the whole product. All its tests of the suite are in this file, so that they share one project."""

import json
import re

import pytest
from clusterra_lab.machine.process import until
from composition import ROOT, Composition, running_demo
from connections import ALLOWED, reached

pytestmark = pytest.mark.containers

OPEN_SECONDS = 240.0
REPLICATED = ("gateway", "proxy", "scaler", "events", "edge")
SECRETS = {
    "nats": {"/etc/nats/nats-server.conf", "/etc/nats/resolver.conf"},
    "oidc": {"/etc/oidc/settings.yaml", "/etc/oidc/users.yaml"},
    "gateway": {
        *("/etc/clusterra/nats.creds", "/etc/clusterra/session-key", "/etc/clusterra/oidc-client"),
        *("/etc/clusterra/s3-access-key-id", "/etc/clusterra/s3-secret-access-key"),
    },
    "proxy": {"/etc/clusterra/nats.creds", "/etc/clusterra/jwt_hs256.key"},
    "scaler": {"/etc/clusterra/nats.creds"},
    "events": {"/etc/clusterra/nats.creds"},
    "edge": {"/etc/clusterra/nats.creds", "/etc/clusterra/agent-key", "/etc/slurm/slurm.key"},
    "sackd": {"/etc/slurm/slurm.key"},
    "login": set[str](),
    "web": set[str](),
    "slurmrestd": {"/etc/slurm/slurm.conf"},
    "slurmdbd": {"/etc/slurm/slurmdbd.conf", "/etc/slurm/slurm.key", "/etc/slurm/jwt_hs256.key"},
}
"""Service -> the files of the volume `secrets` that its containers see."""


async def test_slurmctld_does_not_end_while_it_starts(composed: Composition) -> None:
    """A SIGHUP of its entrypoint ended it on a busy machine, and Compose took it for unhealthy."""
    (container,) = await composed.containers("slurmctld")

    restarts = await composed.docker("inspect", "--format={{.RestartCount}}", container)

    assert restarts.strip() == "0"


async def test_sackd_survives_a_reconfiguration(composed: Composition) -> None:
    """It ended, because it could not start itself anew, and Compose took it for unhealthy."""
    (container,) = await composed.containers("sackd")

    async def starts() -> int:
        return (await composed.compose("logs", "--no-color", "sackd")).count("] running")

    before = await starts()
    await composed.exec("slurmctld", "scontrol", "reconfigure")

    async def has_started_anew() -> bool:
        return await starts() > before

    await until(has_started_anew, seconds=60, what="sackd to start itself anew", every=0.2)
    assert (await composed.docker("inspect", "--format={{.RestartCount}}", container)).strip() == "0"


async def test_the_demo_passes(composed: Composition) -> None:
    printed = await composed.demo()

    assert "✓ 25 jobs and array tasks" in printed


@pytest.mark.parametrize("service", SECRETS)
async def test_a_container_sees_only_its_own_secrets(composed: Composition, service: str) -> None:
    found = await composed.exec(
        service, "sh", "-c", "find /etc/clusterra /etc/slurm /etc/oidc /etc/nats /run/secrets -type f 2>/dev/null; true"
    )

    assert set(found.split()) == SECRETS[service]


async def test_no_secret_is_in_a_container_s_description_or_in_its_log(composed: Composition) -> None:
    keys = await composed.docker(
        *("run", "--rm", "--network=none", "--user=0:0", "--entrypoint=sh"),
        *(f"--volume={composed.project}_secrets:/secrets:ro", "clusterra-admin:compose-test", "-c"),
        'for key in $(find /secrets/keys -type f -size -200c); do echo "$(cat $key)"; done',
    )
    ids = (await composed.compose("ps", "--all", "--quiet")).split()

    told = await composed.docker("inspect", *ids) + await composed.compose("logs", "--no-color")

    values = [key for key in keys.split() if len(key) > 20]
    assert len(values) >= 9
    assert [key for key in values if key in told] == []


async def test_every_published_port_is_on_loopback(composed: Composition) -> None:
    ids = (await composed.compose("ps", "--quiet")).split()

    described = json.loads(await composed.docker("inspect", *ids))

    published = [
        binding["HostIp"]
        for container in described
        for bindings in (container["NetworkSettings"]["Ports"] or {}).values()
        for binding in bindings or ()
    ]
    assert set(published) == {"127.0.0.1"}


async def test_a_person_runs_sbatch_on_the_login_node(composed: Composition) -> None:
    token = await composed.compose("--progress=quiet", "run", "--rm", "--no-deps", "--no-TTY", "token", "lin", "20077")
    script = "id -u; ls -A /tmp; echo $TMPDIR; echo done"
    submit = f"SLURM_JWT={token.strip()} sbatch --parsable --output=/mnt/efs/lin.out --wrap='{script}'"
    await composed.exec("login", "sh", "-c", submit, user="20077:20077")

    async def output() -> str:
        # Nobody else can read it.
        return await composed.exec("login", "sh", "-c", "cat /mnt/efs/lin.out 2>/dev/null || true", user="20077:20077")

    async def complete() -> bool:
        return "done" in await output()

    await until(complete, seconds=90, what="the job's output", every=1.0)
    # Each job has a /tmp of its own.
    assert (await output()).split() == ["20077", "/tmp", "done"]


async def test_a_second_edge_waits_and_takes_over_when_the_first_one_dies(composed: Composition) -> None:
    await composed.scale(edge=2)
    acting = "test -e /run/clusterra/active && echo active || echo waits"
    states = {
        name: (await composed.docker("exec", name, "sh", "-c", acting)).strip()
        for name in await composed.containers("edge")
    }
    assert sorted(states.values()) == ["active", "waits"]
    first, second = sorted(states, key=states.__getitem__)

    await composed.docker("kill", first)

    async def acts() -> bool:
        return (await composed.docker("exec", second, "sh", "-c", acting)).strip() == "active"

    try:
        await until(acts, seconds=90, what="the second edge to act", every=0.2)
        await composed.healthy(second)
    finally:
        await composed.docker("start", first)
        await composed.scale(edge=1)


@pytest.mark.parametrize("source", ALLOWED)
async def test_the_edge_reaches_nats_slurmctld_and_the_gateway_s_http_only(composed: Composition, source: str) -> None:
    async def complete() -> bool:
        return await reached(composed, source) >= ALLOWED[source]

    # An attempt may take too long on a busy machine. What must not be reached is tried each time, too.
    await until(complete, seconds=60, what=f"{source} to reach what it may", every=1.0)
    assert await reached(composed, source) <= ALLOWED[source]


@pytest.mark.parametrize("source", ["gateway", "proxy", "scaler", "events"])
async def test_the_services_reach_each_other_and_nothing_at_the_edge(composed: Composition, source: str) -> None:
    found = await reached(composed, source)

    assert {("nats", 4222), ("gateway", 8080)} <= found
    assert not {service for service, _ in found} & {"edge", "sackd", "login"}


async def test_slurmctld_reaches_the_workers(composed: Composition) -> None:
    edge = (await composed.addresses("edge"))["edge"]
    listen = "import socket; s = socket.create_server(('0.0.0.0', 17999)); s.settimeout(20); s.accept()"
    await composed.compose("exec", "--detach", "edge", "python3", "-c", listen)

    connect = f"for _ in $(seq 50); do if </dev/tcp/{edge}/17999; then exit 0; fi 2>/dev/null; sleep 0.2; done; exit 1"
    await composed.exec("slurmctld", "bash", "-c", connect)


async def test_the_demo_passes_with_two_of_each_service_while_one_of_each_is_killed(composed: Composition) -> None:
    await composed.scale(**dict.fromkeys(REPLICATED, 2))
    try:
        first = [(await composed.containers(service))[0] for service in REPLICATED if service != "edge"]

        async with running_demo(composed):
            await composed.docker("kill", *first)

        for service in REPLICATED:
            for container in await composed.containers(service):
                await composed.healthy(container)
    finally:
        await composed.scale(**dict.fromkeys(REPLICATED, 1))


async def test_output_arrives_as_it_is_printed(composed: Composition) -> None:
    pause_seconds = 4.0
    script = f"#!/bin/sh\necho first; sleep {pause_seconds}; echo second"

    shown = await composed.compose(
        *("--progress=quiet", "run", "--rm", "--no-deps", "--no-TTY", "--entrypoint=python"),
        *(f"--volume={ROOT}/tests/compose/follow_output.py:/follow_output:ro", "demo", "/follow_output"),
        *(composed.gateway_url, script),
    )

    arrived = json.loads(shown)
    assert [line for line, _ in arrived] == ["first", "second"]
    assert arrived[1][1] - arrived[0][1] > pause_seconds / 2


async def test_an_interactive_session_opens_in_a_browser(composed: Composition) -> None:
    files = {
        "open_session": "tests/compose/open_session.py",
        "session_client.py": "tests/session_client.py",
        "session_page.yaml": "tests/session_page.yaml",
    }

    shown = await composed.compose(
        *("--progress=quiet", "run", "--rm", "--no-deps", "--no-TTY", "--entrypoint=python"),
        *(f"--volume={ROOT}/{source}:/{name}:ro" for name, source in files.items()),
        *("demo", "/open_session", composed.gateway_url, "/session_page.yaml"),
        seconds=OPEN_SECONDS,
    )

    opened = json.loads(shown)
    assert opened["url"].startswith(
        f"http://sessions.localhost:{composed.environment['CLUSTERRA_PORT']}/sessions/main/"
    )
    assert (opened["status"], opened["without_ticket"]) == (200, 404), opened
    assert opened["text"].startswith(f"the page of job {opened['job_id']} for ")


async def requests(composed: Composition, gateway: str) -> float:
    """How many requests for the current user this container of the gateway has answered."""
    metrics = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8081/metrics').read().decode())"
    shown = await composed.docker("exec", gateway, "python", "-c", metrics)
    counted = re.findall(r'^clusterra_http_requests_total\{[^}]*route="users_me"[^}]*\} (\S+)', shown, re.MULTILINE)
    return sum(map(float, counted))


async def test_both_replicas_of_the_gateway_answer(composed: Composition) -> None:
    await composed.scale(gateway=2)
    try:
        replicas = await composed.containers("gateway")

        async def both_answered() -> bool:
            await composed.exec(
                "dynamodb", "curl", "--silent", f"http://web:{composed.environment['CLUSTERRA_PORT']}/v1/users/me"
            )
            return all([await requests(composed, replica) > 0 for replica in replicas])

        await until(both_answered, seconds=60, what="both replicas to have answered", every=0.2)
    finally:
        await composed.scale(gateway=1)


def test_every_setting_is_explained() -> None:
    used = set(re.findall(r"\$\{([A-Z0-9_]+)", (ROOT / "compose.yaml").read_text()))
    explained = set(re.findall(r"^#([A-Z0-9_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))

    assert used == explained


def test_slurm_s_configuration_is_the_lab_s() -> None:
    from clusterra_lab.slurm.compose_files import differing

    assert differing(ROOT / "compose" / "slurm") == [], (
        "python -m clusterra_lab.slurm.compose_files write compose/slurm"
    )
