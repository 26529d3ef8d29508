"""The NATS configuration of overlays/prod on three real servers: TLS, logins, replicas, lame duck, the end of one."""

import asyncio
import ipaddress
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nats.errors
import pytest
from central_manifests import CENTRAL, build, kubectl_path, named
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.permissions import inbox_prefix
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.settings import ServiceSettings
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

pytestmark = pytest.mark.containers

IMAGE = "nats:2.14-alpine"
REF = ClusterRef(tenant="acme", cluster="main")
SERVERS = ("nats-0", "nats-1", "nats-2")
HOSTS = ["nats.clusterra.svc", *(f"{server}.nats-servers.clusterra.svc" for server in SERVERS)]


def docker(*argv: str) -> str:
    done = subprocess.run(["docker", *argv], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def answers(*argv: str) -> bool:
    return subprocess.run(["docker", *argv], capture_output=True, check=False, timeout=120).returncode == 0


def store(folder: Path, server: str, what: str) -> Path:
    """A folder that a server writes to and that outlives it."""
    path = folder / f"{what}-{server}"
    path.mkdir()
    path.chmod(0o777)
    return path


def make_secrets(folder: Path) -> None:
    cluster = ("--tenant", REF.tenant, "--cluster", REF.cluster)
    init = [sys.executable, "-m", "clusterra_admin", "secrets", "init", str(folder), *cluster]
    subprocess.run(init, check=True, capture_output=True, timeout=60)


def certificate(folder: Path) -> None:
    """A certificate for clients and routes, with its authority, as cert-manager issues one with both usages."""
    folder.mkdir()
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    authority, server = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("authority", "nats"))
    now = datetime.now(UTC)

    def signed(name: x509.Name, key: ec.EllipticCurvePrivateKey, extensions: list[x509.ExtensionType]) -> bytes:
        builder = x509.CertificateBuilder(
            issuer_name=authority,
            subject_name=name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
        )
        builder = builder.not_valid_before(now - timedelta(minutes=5)).not_valid_after(now + timedelta(days=1))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM)

    identifier = x509.SubjectKeyIdentifier.from_public_key(keys[0].public_key())
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    (folder / "ca.crt").write_bytes(
        signed(authority, keys[0], [x509.BasicConstraints(ca=True, path_length=0), identifier, usage])
    )
    names = [x509.DNSName(host) for host in HOSTS]
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    alternatives = x509.SubjectAlternativeName([*names, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    trusted = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    (folder / "tls.crt").write_bytes(signed(server, keys[1], [purposes, alternatives, trusted]))
    (folder / "tls.key").write_bytes(keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@dataclass(frozen=True)
class Site:
    """Three servers that run, each with a port of this machine."""

    folder: Path
    prefix: str
    ports: tuple[int, ...]

    def settings(self, user: str) -> ServiceSettings:
        return ServiceSettings(
            nats_url=",".join(f"tls://127.0.0.1:{port}" for port in self.ports),
            nats_ca_file=self.folder / "clusterra" / "nats-tls" / "ca.crt",
            nats_credentials_file=self.folder / "secrets" / "nats" / f"{user}.creds",
        )

    def topology(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`clusterra-admin topology`, as the Job runs it."""
        settings = self.settings("admin")
        environment = {
            **os.environ,
            "CLUSTERRA_NATS_URL": settings.nats_url,
            "CLUSTERRA_NATS_CA_FILE": str(settings.nats_ca_file),
            "CLUSTERRA_NATS_CREDENTIALS_FILE": str(settings.nats_credentials_file),
        }
        command = [sys.executable, "-m", "clusterra_admin", "topology", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    if shutil.which("docker") is None or not answers("info"):
        pytest.skip("the three servers need names of their own: no container engine answers")
    folder = tmp_path_factory.mktemp("nats")
    built = build(await kubectl_path(), CENTRAL / "overlays" / "prod")
    pod = named(built, "StatefulSet", "nats")["spec"]["template"]["spec"]
    (name,) = (each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each)
    config = named(built, "ConfigMap", name)
    (folder / "etc").mkdir()
    for name, text in config["data"].items():
        (folder / "etc" / name).write_text(text)
    (folder / "clusterra" / "nats-resolver").mkdir(parents=True)
    certificate(folder / "clusterra" / "nats-tls")
    make_secrets(folder / "secrets")
    shutil.copy(folder / "secrets" / "nats" / "resolver.conf", folder / "clusterra" / "nats-resolver")
    for path in (folder / "etc", folder / "clusterra", *folder.parents[:1]):
        path.chmod(0o755)
    for path in (folder / "clusterra").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    prefix = f"clusterra-test-{uuid.uuid4().hex[:8]}"
    found = Site(folder, prefix, tuple(free_port() for _ in SERVERS))
    (container,) = pod["containers"]
    environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    docker("network", "create", prefix)
    try:
        for server, port in zip(SERVERS, found.ports, strict=True):
            docker(
                *("run", "--detach", f"--name={prefix}-{server}", f"--network={prefix}", f"--hostname={server}"),
                *(f"--network-alias={server}.nats-servers.clusterra.svc", f"--publish=127.0.0.1:{port}:4222"),
                *(
                    "--read-only",
                    "--user=65532:65532",
                    "--cap-drop=ALL",
                    f"--volume={store(folder, server, 'data')}:/data",
                    f"--volume={store(folder, server, 'run')}:/run/nats",
                ),
                *(f"--volume={folder / 'etc'}:/etc/nats:ro", f"--volume={folder / 'clusterra'}:/etc/clusterra:ro"),
                *(f"--env={name}={value}" for name, value in {**environment, "POD_NAME": server}.items()),
                IMAGE,
                *container["command"],
            )
        yield found
    finally:
        for server in SERVERS:
            answers("rm", "--force", f"{prefix}-{server}")
        docker("network", "rm", prefix)


@asynccontextmanager
async def connected(settings: ServiceSettings) -> AsyncIterator[Client]:
    async with asyncio.timeout(60):
        client = await bus.connect(settings, "gateway")
    try:
        yield client
    finally:
        await bus.close(client)


async def stored(client: Client, subject: str) -> bool:
    """Whether a majority of the servers stores a message."""
    try:
        answer = await client.request(subject, b"{}", timeout=2)
    except nats.errors.Error:
        return False
    return "error" not in json.loads(answer.data)


async def test_streams_have_three_replicas_and_outlive_each_server(site: Site) -> None:
    async def applied() -> bool:
        return site.topology("apply", "--replicas", "3").returncode == 0

    await until(applied, seconds=120, what="the streams", every=1)
    assert site.topology("check", "--replicas", "3").returncode == 0

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connected(site.settings("admin")))
        information = await client.request("$JS.API.STREAM.INFO.EVENT", b"", timeout=5)
        cluster = json.loads(information.data)["cluster"]
        assert {cluster["leader"], *(each["name"] for each in cluster["replicas"])} == set(SERVERS)

        for number, server in enumerate(SERVERS):
            # As the preStop hook does, then as the kubelet does.
            docker("exec", f"{site.prefix}-{server}", "nats-server", "--signal", "ldm=/run/nats/nats.pid")
            docker("kill", f"{site.prefix}-{server}")
            await until(
                lambda subject=f"event.acme.main.test.{number}": stored(client, subject),  # type: ignore[misc]
                seconds=60,
                what=f"a write without {server}",
                every=0.5,
            )
            docker("start", f"{site.prefix}-{server}")

            def started(server: str = server) -> bool:
                return answers("exec", f"{site.prefix}-{server}", "wget", "-qO-", "http://127.0.0.1:8222/healthz")

            await until(started, seconds=90, what=f"{server} to be healthy", every=0.5)


async def test_an_agent_in_its_own_account_works_at_each_server(site: Site) -> None:
    desired, log = subjects.scale_desired(REF), subjects.edge(REF, "log")
    edge = site.settings("admin").model_copy(
        update={"nats_credentials_file": site.folder / "secrets/clusters/acme/main/agent.creds"}
    )
    async with connected(site.settings("admin")) as central:
        await until(lambda: stored(central, desired), seconds=60, what="a desired state", every=0.5)
        for port in site.ports:
            here = edge.model_copy(update={"nats_url": f"tls://127.0.0.1:{port}"})
            agent = await bus.connect(here, "edge-agent", inbox_prefix=inbox_prefix(REF))
            requests = await agent.subscribe(log)
            await agent.flush()
            found = await agent.request(f"$JS.API.DIRECT.GET.SCALE.{desired}", b"", timeout=5)

            assert found.data == b"{}"
            assert await stored(agent, subjects.event(REF, "worker.started"))

            asking = asyncio.create_task(central.request(log, b"?", timeout=5))
            await (await requests.next_msg(timeout=5)).respond(b"here")

            assert (await asking).data == b"here"
            await bus.close(agent)


async def test_a_client_without_credentials_or_tls_gets_nothing(site: Site) -> None:
    settings = site.settings("gateway")
    for wrong in (
        {"nats_credentials_file": None},
        {"nats_url": settings.nats_url.replace("tls://", "nats://"), "nats_ca_file": None},
    ):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await bus.connect(settings.model_copy(update=wrong), "gateway")


async def test_the_gateways_login_makes_no_streams(site: Site) -> None:
    async with connected(site.settings("gateway")) as client:
        with pytest.raises(Exception, match="timeout"):
            await client.request("$JS.API.STREAM.CREATE.MINE", b'{"name":"MINE","subjects":["mine"]}', timeout=2)
