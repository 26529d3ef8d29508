"""Deletions step by step, on a real nats-server: what is waited for, what survives a crash, and what stays.

The scaler and the archive are stand-ins here; `tests/test_deletion.py` has the real ones.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import aiohttp
import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import encode
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import Heartbeat, Worker
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.forget import Forget, Forgotten
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.webhooks import DeliverFrom, Webhook
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, DELETIONS, file_event_key, tenant_key
from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.accounts.records import Tenant
from clusterra_gateway.accounts.shared_link_records import SharedLink
from clusterra_gateway.bus.bus_login_requests import BusLoginRequests
from clusterra_gateway.tables import TABLES
from clusterra_gateway.tenants import removal
from clusterra_gateway.tenants.deletions import Deletions
from clusterra_gateway.tenants.removal import ClusterRemoval
from clusterra_gateway.tenants.tenant_removal import DeletionSweep, TenantRemoval
from clusterra_gateway.webhooks.signing_secrets import new_secret
from clusterra_gateway.workflows.workflow_records import WorkflowRecords
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put, Update
from clusterra_runtime.store.table_use import tables_of
from clusterra_runtime.store.webhook_records import WEBHOOKS, attributes_of, webhook_key
from gateway_world import World, apply_file, authorized, provisioned
from people_world import me, owner
from scim_world import directory_of, person
from test_invitations import accept
from test_tenants import BINDING, TENANTS, made

TENANT = "doomed"
REF = ClusterRef(tenant=TENANT, cluster="main")


@dataclass
class Services:
    """Stand-ins for the scaler and the archive: how many records each still has."""

    records: dict[str, int] = field(default_factory=lambda: {"scaler": 2, "events": 450})
    away: bool = False

    async def forget(self, subject: Subject, request: Forget) -> Forgotten:
        if self.away:
            raise RpcFailed(RpcError(kind="unavailable", detail="away"))
        removed = min(self.records[subject.rest], request.most)
        self.records[subject.rest] -= removed
        return Forgotten(removed=removed)


@dataclass
class Deleting:
    """A tenant with clusters, and the deletions of a gateway that the test steps itself."""

    world: World
    directory: Directory
    registry: Registry
    services: Services

    def sweep(self, wait_seconds: float = 3600.0) -> DeletionSweep:
        """A sweep as a gateway has that has just started."""
        runs = WorkflowRecords(self.world.store, self.directory.outbox)
        clusters = ClusterRemoval(self.directory, self.world.client, self.registry, runs, wait_seconds)
        tenants = TenantRemoval(
            self.directory, Deletions(self.directory, self.registry), BusLoginRequests(self.world.client)
        )
        return DeletionSweep(self.world.store, clusters, tenants)

    async def begin(self, *, force: bool = False) -> None:
        await Deletions(self.directory, self.registry).begin_cluster(REF, by="operator:anna", force=force)

    async def marks(self) -> list[str]:
        return [item.key.sk for item in (await self.world.store.query(ACCOUNTS, DELETIONS)).items]

    async def sweep_until_gone(self, seconds: float = 30.0) -> None:
        """Step by sweeps that know nothing of each other, as after crashes."""

        async def gone() -> bool:
            await self.sweep().sweeper().once()
            return await self.marks() == []

        await until(gone, seconds=seconds, what="the end of all deletions", every=0.05)


@pytest.fixture
async def deleting(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Deleting]:
    monkeypatch.setattr(removal, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(removal, "QUIET_SECONDS", 0.0)
    services, registry = Services(), Registry()
    await registry.start(world.client)
    subscriptions = [
        await rpc.serve(world.client, f"forget.{TENANT}.*.{name}", Forget, services.forget) for name in services.records
    ]
    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        directory = Directory(world.store, outbox)
        tenant = provisioned(TENANT, "main", "other") | {"usd_per_hour": 10, "members": ["guest@elsewhere.example"]}
        await apply_file(directory, tenant, registry=registry)
        await Projection(directory, world.client, registry).project()
        await until(lambda: registry.get(REF), seconds=30, what="the clusters in the registry", every=0.05)
        yield Deleting(world, directory, registry, services)
    for subscription in subscriptions:
        await subscription.unsubscribe()
    await registry.stop()


def shared_link(member: str) -> SharedLink:
    """A link of this member to a job of the cluster that is deleted."""
    job = {"tenant": TENANT, "cluster": "main", "job_id": "7", "submitted_at": now()}
    made = {"secret_hash": "", "created_at": now(), "valid_until": now() + timedelta(days=1)}
    return SharedLink.model_validate({**job, "member": member, "user": "ada", **made})


def webhook_record(webhook_id: str) -> Webhook:
    """A webhook, as it is stored."""
    return Webhook(
        id=webhook_id,
        name="CI",
        url="https://ci.example/in",
        secrets=(new_secret(),),
        deliver_from=DeliverFrom(id="0" * 16, time=now()),
        created_by="ada",
        created_at=now(),
    )


async def beat(deleting: Deleting, *workers: str) -> None:
    heartbeat = Heartbeat(
        generation=int(time.time() * 1000),
        sent_at=now(),
        agent_version="1",
        substrate="process",
        workers=tuple(Worker(name=name, shape="compute-xs", phase="running", started_at=now()) for name in workers),
    )
    await bus.store(deleting.world.client, subjects.heartbeat(REF), *encode(heartbeat))


async def test_a_cluster_waits_for_its_edge_and_then_nothing_of_it_is_left(deleting: Deleting) -> None:
    await deleting.world.store.write(Update(ACCOUNTS, file_event_key(REF, "1")))
    for write in shared_link("m1").puts("l1"):
        await deleting.world.store.write(write)
    await deleting.begin()
    await beat(deleting, "compute-xs-1")
    for _ in range(3):
        await deleting.sweep().sweeper().once()
    assert (await deleting.directory.leaving()) == frozenset(), "a worker is there"

    await beat(deleting)
    await deleting.sweep_until_gone()

    assert deleting.registry.get(REF) is None
    assert deleting.services.records == {"scaler": 0, "events": 0}
    assert await deleting.directory.cluster(REF) is None
    assert [place for place in places(deleting.world) if REF.key in place or "shared-link" in place] == []
    other = await deleting.directory.cluster(ClusterRef(tenant=TENANT, cluster="other"))
    assert other is not None
    assert other.policy.usd_per_hour == 10, "the share of the deleted cluster is given back"


async def test_a_silent_edge_is_waited_for_and_force_does_not_wait(deleting: Deleting) -> None:
    await deleting.begin()
    for _ in range(3):
        await deleting.sweep().sweeper().once()
    assert await deleting.marks() == [f"cluster#{REF.key}"]
    assert await deleting.directory.leaving() == frozenset()

    await deleting.begin(force=True)

    await deleting.sweep_until_gone()


async def test_the_wait_for_a_silent_edge_has_an_end(deleting: Deleting) -> None:
    await deleting.begin()

    await deleting.sweep(wait_seconds=0.0).sweeper().once()

    assert await deleting.directory.leaving() == {REF}


async def test_a_service_that_is_away_holds_the_removal_up_and_loses_nothing(deleting: Deleting) -> None:
    deleting.services.away = True
    await deleting.begin(force=True)
    await until(lambda: deleting.directory.leaving(), seconds=90, what="a cluster that leaves")
    for _ in range(10):
        await deleting.sweep().sweeper().once()
    assert await deleting.directory.cluster(REF) is not None

    deleting.services.away = False
    await deleting.sweep_until_gone()

    assert await deleting.directory.cluster(REF) is None


async def test_a_mark_without_a_tombstone_deletes_nothing(deleting: Deleting, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dies(*_arguments: object, **_options: object) -> int:
        raise RuntimeError("the gateway dies here")

    with monkeypatch.context() as patched:
        patched.setattr(Directory, "change_cluster", dies)
        with pytest.raises(RuntimeError):
            await deleting.begin(force=True)
    assert await deleting.marks() == [f"cluster#{REF.key}"]
    monkeypatch.setattr(removal, "ABANDONED", removal.ABANDONED * 0)

    await deleting.sweep().sweeper().once()

    assert await deleting.marks() == []
    assert await deleting.directory.cluster(REF) is not None


async def test_nobody_joins_a_tenant_that_is_being_deleted(deleting: Deleting) -> None:
    await Deletions(deleting.directory, deleting.registry).begin_tenant(TENANT, by="operator:anna", force=True)

    status = await joins(deleting.world, f"bob@{TENANT}.example")

    assert status == 403


async def test_a_deleted_tenant_is_shown_to_nobody(deleting: Deleting) -> None:
    ada, operator = await deleting.world.login(f"ada@{TENANT}.example"), await deleting.world.operator()
    await Deletions(deleting.directory, deleting.registry).begin_tenant(TENANT, by="operator:anna", force=True)
    await deleting.sweep_until_gone()

    async with operator.get(f"/v1/tenants/{TENANT}") as of_operator, ada.get("/v1/users/me") as of_member:
        statuses = (of_operator.status, of_member.status)

    # A verified credential is trusted for 15 s.
    assert statuses in ((404, 200), (404, 401))


async def test_a_deleted_tenant_leaves_a_tombstone_and_nothing_else(deleting: Deleting) -> None:
    world = deleting.world
    ada = await world.login(f"ada@{TENANT}.example")
    guest = await world.login("guest@elsewhere.example")
    async with ada.post("/v1/users/me/tokens", json={"name": "ci"}, headers={"Idempotency-Key": "12345678"}) as answer:
        assert answer.status == 201
    async with guest.get("/v1/users/me") as answer:
        guest_id = (await answer.json())["id"]
    async with directory_of(world, await owner(world, f"ada@{TENANT}.example"), TENANT) as directory:
        user = await directory.made("/Users", person(f"ada@{TENANT}.example", externalId="e1"))
        await directory.made("/Groups", {"displayName": "all", "members": [{"value": user["id"]}]})

    for write in shared_link((await me(ada))["id"]).puts("l1"):
        await world.store.write(write)
    webhook = webhook_record("wh_0123456789abcdef")
    await world.store.write(Put(WEBHOOKS, webhook_key(TENANT, webhook.id), attributes_of(webhook), Absent()))

    await Deletions(deleting.directory, deleting.registry).begin_tenant(TENANT, by="operator:anna", force=True)
    await joins(world, f"bob@{TENANT}.example")
    await deleting.sweep_until_gone()

    item = await world.store.get(ACCOUNTS, tenant_key(TENANT))
    assert item is not None
    tombstone = Tenant.of(item)
    assert tombstone.deletion is not None
    assert (tombstone.name, tombstone.domains, tombstone.deletion.by) == ("", (), "operator:anna")
    left = [place for place in places(world) if TENANT in place or guest_id in place]
    assert left == [str((ACCOUNTS.name, f"tenant#{TENANT}", "tenant", dict(item.attributes)))]


async def test_a_person_of_another_tenant_goes_on_there(deleting: Deleting) -> None:
    world = deleting.world
    guest = await world.login("guest@elsewhere.example")
    boss = await world.login("boss@acme.example")
    async with boss.post("/v1/invitations", json={"email": "guest@elsewhere.example"}) as answer:
        status, there = await accept(world, (await answer.json())["token"], "guest@elsewhere.example")
    assert status == 303
    before = await me(there)

    await Deletions(deleting.directory, deleting.registry).begin_tenant(TENANT, by="operator:anna", force=True)
    await deleting.sweep_until_gone()

    again = await me(await world.login("guest@elsewhere.example", await world.browser()))
    assert (again["tenant"]["id"], again["id"], again["uid"]) == ("acme", before["id"], before["uid"])
    await guest.close()


async def test_no_admin_and_no_member_and_no_token_deletes_a_cluster(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    owner = await made_owner(world)
    async with owner.post("/v1/users/me/tokens", json={"name": "ci"}) as answer:
        token = {"Authorization": f"Bearer {(await answer.json())['token']}"}
    program = await world.browser()

    refused = [
        await boss.delete("/v1/clusters/main"),
        await ada.delete("/v1/clusters/main"),
        await program.delete("/v1/clusters/ending", headers=token),
    ]

    assert [answer.status for answer in refused] == [403, 403, 403]


async def test_an_owner_deletes_a_cluster_and_an_operator_forces_it(world: World) -> None:
    owner, operator = await made_owner(world), await world.operator()

    async with owner.delete("/v1/clusters/ending") as answer:
        begun = (answer.status, (await answer.json())["state"])
    async with operator.delete(f"{TENANTS}/lab/clusters/ending", params={"force": "true"}) as answer:
        forced = (await answer.json())["force"]

    assert begun == (202, "deleting")
    assert forced is True


async def test_a_deletion_is_not_taken_back(world: World) -> None:
    owner, operator = await made_owner(world), await world.operator()
    await owner.delete("/v1/clusters/ending")

    async def shown() -> bool:
        async with owner.get("/v1/clusters/ending") as answer:
            return bool((await answer.json())["state"] == "deleting")

    await until(shown, seconds=30, what="a cluster that is being deleted", every=0.05)

    refused = [
        await operator.patch(f"{TENANTS}/lab/clusters/ending", json={"state": "active"}),
        await owner.patch("/v1/clusters/ending", json={"state": "active"}),
    ]

    assert [answer.status for answer in refused] == [409, 409]


@pytest.mark.parametrize(
    ("path", "force", "status"), [("none", "false", 404), ("lab/clusters/none", "false", 404), ("lab", "maybe", 400)]
)
async def test_a_deletion_of_nothing_is_refused(world: World, path: str, force: str, status: int) -> None:
    await made_owner(world)
    operator = await world.operator()

    async with operator.delete(f"{TENANTS}/{path}", params={"force": force}) as answer:
        told = answer.status

    assert told == status


async def made_owner(world: World) -> aiohttp.ClientSession:
    """The browser of the owner of a new tenant with a cluster `ending`."""
    told = await made(world)
    async with (await world.operator()).post(f"{TENANTS}/lab/clusters", json=BINDING | {"id": "ending"}) as answer:
        assert answer.status == 201, await answer.text()
    status, owner = await accept(world, told["invitation"]["token"], "head@lab.example")
    assert status == 303

    async def served() -> bool:
        async with owner.get("/v1/clusters/ending") as answer:
            return answer.status == 200

    await until(served, seconds=30, what="the new cluster", every=0.05)
    return owner


def places(world: World) -> list[str]:
    """What the tables hold, item by item, expired or not."""
    return [
        str((table.name, pk, sk, dict(item.attributes)))
        for table in tables_of(TABLES)
        for pk, partition in world.store._tables[table.name].items()
        for sk, item in partition.items()
    ]


async def joins(world: World, email: str) -> int:
    browser = await world.browser()
    async with browser.get(await authorized(browser, email), allow_redirects=False) as answer:
        return answer.status
