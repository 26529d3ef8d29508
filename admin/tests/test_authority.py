"""Logins of integrations at a real nats-server in operator mode: what they read, and how fast one is revoked."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats.errors
import pytest
from clusterra_admin.authority.app import AuthoritySettings, app
from clusterra_admin.secrets import declared, nats_jwt
from clusterra_admin.secrets.nkey import Key
from clusterra_contracts import event_kinds
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.rpc.bus_logins import BusLogin, RevokeBusLogins, SignBusLogin
from clusterra_contracts.rpc.reply import Done
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.client import Client
from clusterra_runtime.service import Service
from operator_server import Installation, flushed, installed

pytestmark = pytest.mark.servers

ACME, RIVAL = TenantRef(tenant="acme"), TenantRef(tenant="rival")
C1, C2 = ClusterRef(tenant="acme", cluster="c1"), ClusterRef(tenant="acme", cluster="c2")
THEIRS = ClusterRef(tenant="rival", cluster="c1")
REFUSED = nats.errors.Error


@asynccontextmanager
async def authority(installation: Installation) -> AsyncIterator[None]:
    settings = AuthoritySettings(
        nats_url=installation.server.url,
        nats_credentials_file=installation.secrets / declared.AUTHORITY_CREDENTIALS,
        nats_system_credentials_file=installation.secrets / declared.AUTHORITY_SYSTEM_CREDENTIALS,
        authority_key_file=installation.secrets / declared.AUTHORITY,
    )
    async with app(Service("authority", settings)):
        yield


@pytest.fixture(scope="module")
async def installation(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with installed(tmp_path_factory.mktemp("authority"), (C1,)) as installation, authority(installation):
        yield installation


@pytest.fixture(scope="module")
async def gateway(installation: Installation) -> AsyncIterator[Client]:
    settings = installation.server.settings("admin").model_copy(
        update={"nats_credentials_file": installation.central("gateway")}
    )
    client = await bus.connect(settings, "gateway")
    yield client
    await bus.close(client)


class Integration:
    """The program of a customer: it has made its own key, and keeps the seed."""

    def __init__(self, place: Path, gateway: Client, ref: TenantRef = ACME, cluster: str | None = None) -> None:
        self.key = Key.new("U")
        self.file = place / f"{self.key.public}.creds"
        self._gateway = gateway
        self._ref, self._cluster = ref, cluster

    async def renew(self, seconds: int = 3600) -> BusLogin:
        request = SignBusLogin(
            credential_id="bc_0123456789abcdef",
            public_key=self.key.public,
            cluster=self._cluster,
            lifetime_seconds=seconds,
        )
        login = await rpc.call(self._gateway, subjects.bus_login(self._ref), request, BusLogin)
        self.file.write_text(nats_jwt.credentials(login.jwt, self.key))
        return login

    async def revoke(self) -> None:
        request = RevokeBusLogins(public_keys=(self.key.public,))
        await rpc.call(self._gateway, subjects.bus_revocation(self._ref), request, Done)


async def refused(installation: Installation, credentials: Path) -> bool:
    try:
        async with installation.connected(credentials):
            return False
    except REFUSED:
        return True


async def test_an_integration_reads_the_events_of_its_tenant_and_no_others(
    installation: Installation, gateway: Client, tmp_path: Path
) -> None:
    whole, one = Integration(tmp_path, gateway), Integration(tmp_path, gateway, cluster="c1")
    assert (await whole.renew()).subject == "event.acme.>"
    assert (await one.renew()).subject == "event.acme.c1.>"
    async with (
        installation.connected(installation.central("admin")) as central,
        installation.connected(whole.file) as of_tenant,
        installation.connected(one.file) as of_cluster,
    ):
        all_events, events = await of_tenant.subscribe("event.acme.>"), await of_cluster.subscribe("event.acme.c1.>")
        await flushed(of_tenant)
        await flushed(of_cluster)
        for ref in (THEIRS, C2, C1):
            await central.jetstream().publish(subjects.event(ref, "job.failed"), ref.key.encode())

        assert [(await all_events.next_msg(timeout=5)).data for _ in "12"] == [C2.key.encode(), C1.key.encode()]
        assert (await events.next_msg(timeout=5)).data == C1.key.encode()
        assert all_events.pending_msgs == events.pending_msgs == 0


async def test_a_revoked_login_is_cut_within_a_second_and_cannot_come_back(
    installation: Installation, gateway: Client, tmp_path: Path
) -> None:
    stolen, other = Integration(tmp_path, gateway), Integration(tmp_path, gateway)
    await stolen.renew()
    await other.renew()
    async with installation.connected(stolen.file) as cut, installation.connected(other.file) as stays:
        started = time.monotonic()
        await stolen.revoke()
        await until(lambda: cut.is_closed, seconds=30, what="the end of the revoked connection")
        seconds = time.monotonic() - started

        assert await refused(installation, stolen.file)
        await flushed(stays)
        assert stays.is_connected

    print(f"revoked and cut in {seconds * 1000:.0f} ms")
    assert seconds < 1

    await installation.server.kill()
    await installation.server.restart()

    assert await refused(installation, stolen.file)
    assert not await refused(installation, other.file)

    # A key that gets a new login may come back; the old login may not.
    old = stolen.file.read_text()

    async def renewed() -> bool:
        try:
            await stolen.renew()
        except rpc.RpcFailed:
            return False
        return True

    await until(renewed, seconds=90, what="gateway and authority to be connected again")
    assert not await refused(installation, stolen.file)
    stolen.file.write_text(old)
    assert await refused(installation, stolen.file)


async def test_the_example_of_the_guide_prints_events(
    installation: Installation, gateway: Client, tmp_path: Path
) -> None:
    program = Integration(tmp_path, gateway)
    login = await program.renew()
    (tmp_path / "seed").write_text(program.key.seed)
    (tmp_path / "login.jwt").write_text(login.jwt)
    example = Path(__file__).parents[2] / "examples" / "subscribe" / "subscribe.py"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(example), installation.server.url, login.subject), cwd=tmp_path, stdout=subprocess.PIPE
    )
    try:
        async with installation.connected(installation.central("admin")) as central, asyncio.timeout(90):
            assert process.stdout is not None
            line = asyncio.ensure_future(process.stdout.readline())
            # The program is subscribed at some time: until then an event is sent again and again.
            while not line.done():
                event = event_kinds.example("job.failed")
                await central.publish(subjects.event(C1, "job.failed"), event.model_dump_json().encode())
                await asyncio.wait({line}, timeout=0.2)
            printed = (await line).decode()
    finally:
        process.kill()
        await process.wait()

    assert printed.endswith("event.acme.c1.job.failed\n")


async def test_an_integration_renews_while_it_is_connected(
    installation: Installation, gateway: Client, tmp_path: Path
) -> None:
    program = Integration(tmp_path, gateway)
    first = await program.renew(60)
    second = await program.renew(7200)

    assert second.account == first.account
    assert (second.expires_at - first.expires_at).total_seconds() > 7000
    assert not await refused(installation, program.file)


async def test_a_login_is_worth_nothing_without_its_seed_and_in_another_tenants_name(
    installation: Installation, gateway: Client, tmp_path: Path
) -> None:
    program, thief = Integration(tmp_path, gateway), Integration(tmp_path, gateway, RIVAL)
    login = await program.renew()
    assert (await thief.renew()).account != login.account

    thief.file.write_text(nats_jwt.credentials(login.jwt, thief.key))

    assert await refused(installation, thief.file)


async def test_all_logins_of_a_tenant_are_revoked_at_once(
    installation: Installation, gateway: Client, tmp_path: Path
) -> None:
    programs, other = [Integration(tmp_path, gateway, RIVAL) for _ in "123"], Integration(tmp_path, gateway)
    for each in (*programs, other):
        await each.renew()

    request = RevokeBusLogins(public_keys=(), every=True)
    await rpc.call(gateway, subjects.bus_revocation(RIVAL), request, Done)

    assert all(await asyncio.gather(*(refused(installation, each.file) for each in programs)))
    assert not await refused(installation, other.file)
