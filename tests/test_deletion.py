"""A tenant is deleted on the whole lab: its job ends, its workers go, and nothing of it is left but the tombstone.

The gateway is killed twice meanwhile, and another replica goes on with the deletion.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiohttp import ClientSession
from clusterra_contracts.bus.topology import BOUNDS
from clusterra_events.tables import TABLES as OF_EVENTS
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import tenant_key
from clusterra_gateway.bus.bus_login_requests import BusLoginRequests
from clusterra_gateway.tables import TABLES as OF_GATEWAY
from clusterra_gateway.tenants import removal
from clusterra_gateway.tenants.deletions import Deletions
from clusterra_gateway.tenants.removal import ClusterRemoval
from clusterra_gateway.tenants.tenant_removal import DeletionSweep, TenantRemoval
from clusterra_gateway.workflows.workflow_records import WorkflowRecords
from clusterra_lab.demo.observer import observe
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Store
from clusterra_runtime.store.table_use import tables_of
from clusterra_scaler.fleet_table import TABLES as OF_SCALER
from gates import closed_gate
from scim_directory import ADA, directory_of, made
from webhook_receiver import receiver

TENANT = "/v1/tenants/acme"
WORDS = ("acme", "Lovelace", '"ada"', "#ada", "-ada-")
"""Names of the tenant and of its person. No key and no value may contain one."""


@pytest.fixture
def lab(production_lab: Stack) -> Stack:
    return production_lab


@pytest.fixture
async def operator(lab: Stack, operator_token: str) -> AsyncIterator[ClientSession]:
    async with ClientSession(lab.gateway_url, headers={"Authorization": f"Bearer {operator_token}"}) as session:
        yield session


async def test_nothing_of_a_deleted_tenant_is_left(
    lab: Stack, operator: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = lab.services["gateway"]
    async with lab.user("ada@acme.example") as ada, observe(lab.bus, lab.cluster) as observer:
        await leave_traces(ada)
        async with directory_of(lab, ada, monkeypatch) as directory:
            user = await made(directory, "Users", {"userName": ADA, "externalId": "e1"})
            await made(directory, "Groups", {"displayName": "acme", "members": [{"value": user}]})
        gate = closed_gate(lab)
        running = await ada.submit(f"#!/bin/bash\n{gate.wait}", {"name": "long"}, key=secrets.token_hex(8))
        await until(lambda: (running.job_id, "job.running") in observer.job_events, seconds=120, what="a running job")
        await until(lambda: crossed(ada), seconds=60, what="a budget that has crossed a threshold", every=0.5)
        assert observer.workers
        assert len(await traces(lab, monkeypatch)) > 50
        assert len(await subjects(lab)) > 10

        async with operator.delete(TENANT) as answer:
            assert answer.status == 202, await answer.text()
            assert (await answer.json())["state"] == "deleting"

        async with replica(lab, monkeypatch) as sweep:
            await sweep.sweeper().once()
        gateway.kill()
        await gateway.start()
        await gateway.ready()
        await until(lambda: shown_as(ada, "deleting"), seconds=90, what="a cluster that is deleted")
        assert await refused_submit(ada) == 409
        gate.open()
        await until(lambda: (running.job_id, "job.completed") in observer.job_events, seconds=90, what="the job's end")
        await until(lambda: not observer.workers, seconds=120, what="an edge without workers")
        await until(lambda: shown_as(ada, None), seconds=90, what="a cluster that has left the registry")
    # An agent that runs on would tell heartbeats of a cluster that nobody knows.
    await lab.services["edge-agent"].stop()
    gateway.kill()
    async with replica(lab, monkeypatch) as sweep:

        async def over() -> bool:
            await sweep.sweeper().once()
            return await sweep.marks() == []

        await until(over, seconds=180, what="the end of the deletion", every=0.2)
    await gateway.start()
    await gateway.ready()

    async with operator.get(TENANT) as answer:
        assert answer.status == 404
    found = await traces(lab, monkeypatch)
    assert [item.key for item in found] == [tenant_key("acme")], found
    assert "anna" in text_of(found[0])
    assert found[0].expires_at is not None
    assert await subjects(lab) == []
    async with operator.get("/v1/tenants") as answer:
        assert [each["id"] for each in (await answer.json())["tenants"]] == ["globex"]
    async with operator.post("/v1/tenants", json={"id": "acme", "name": "A", "owner": "a@b.example"}) as answer:
        assert answer.status == 409
        assert "deleted of late" in await answer.text()


async def leave_traces(ada: User) -> None:
    """Make jobs with a key and with files, a run, a token, an invitation, a service account, a webhook, a quota, a
    budget."""
    await limit(ada, "budgets/tenant/acme", "0.000001")
    job = await ada.submit("#!/bin/bash\ntrue\n", {"name": "first"}, key=secrets.token_hex(8))
    step = {"step_id": "one", "script": "#!/bin/sh\ntrue\n", "job": {"environment": ["PATH=/usr/bin:/bin"]}}
    staged = {
        "script": "#!/bin/sh\ntrue\n",
        "job": {"environment": ["PATH=/usr/bin:/bin"], "current_working_directory": "staged"},
        "stage_out": [{"source": "*", "destination": "outputs"}],
    }
    for path, body in (
        (f"/v1/clusters/{ada.cluster}/jobs/submit", staged),
        (f"/v1/clusters/{ada.cluster}/runs", {"run_name": "nightly", "steps": [step]}),
        ("/v1/users/me/tokens", {"name": "ci"}),
        ("/v1/invitations", {"email": "guest@elsewhere.example"}),
        ("/v1/service-accounts", {"name": "robot", "role": "member"}),
    ):
        headers = {"Idempotency-Key": secrets.token_hex(8)}
        async with ada.session.post(path, json=body, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
    async with receiver() as receiving:
        webhook = {"name": "CI", "url": f"{receiving.address}/take"}
        async with ada.session.post("/v1/webhooks", json=webhook) as answer:
            assert answer.status == 201, await answer.text()

        await limit(ada, "quotas/user/ada", "999.00")
        await until(lambda: len(receiving.received) > 1, seconds=90, what="a delivery after the test", every=0.2)

    async def ended() -> bool:
        return (await ada.job(job.job_id)).state == "COMPLETED"

    await until(ended, seconds=120, what="the end of the first job", every=0.5)
    await limit(ada, "quotas/user/ada", "1000.00")


async def limit(ada: User, path: str, most: str) -> None:
    async with ada.session.put(f"/v1/{path}", json={"limit": most}) as answer:
        assert answer.status == 200, await answer.text()


async def crossed(ada: User) -> bool:
    async with ada.session.get("/v1/budgets") as answer:
        (budget,) = (await answer.json())["budgets"]
        return budget["thresholds"][0]["crossed_at"] is not None


async def shown_as(ada: User, state: str | None) -> bool:
    async with ada.session.get("/v1/clusters") as answer:
        if answer.status != 200:
            return False
        clusters = (await answer.json())["clusters"]
    return [each["state"] for each in clusters] == ([] if state is None else [state])


async def refused_submit(ada: User) -> int:
    body = {"script": "#!/bin/sh\n", "job": {"environment": ["PATH=/bin"]}}
    async with ada.session.post(f"/v1/clusters/{ada.cluster}/jobs/submit", json=body) as answer:
        assert "being deleted" in await answer.text()
        return answer.status


@asynccontextmanager
async def replica(lab: Stack, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DeletionSweep]:
    """The deletions of another replica of the lab's gateway. The services of a lab hear soon of a cluster's end."""
    monkeypatch.setattr(removal, "SETTLE_SECONDS", 5.0)
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)
    registry = Registry()
    await registry.start(lab.bus)
    try:
        async with (
            DynamoDBStore(table_prefix="clusterra-") as store,
            Outbox(store, partial(bus.store, lab.bus)) as outbox,
        ):
            directory = Directory(store, outbox)
            clusters = ClusterRemoval(directory, lab.bus, registry, WorkflowRecords(store, outbox), wait_seconds=3600.0)
            tenants = TenantRemoval(directory, Deletions(directory, registry), BusLoginRequests(lab.bus))
            yield DeletionSweep(store, clusters, tenants)
    finally:
        await registry.stop()


async def traces(lab: Stack, monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """The items of all tables that name the tenant or its person."""
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)
    async with DynamoDBStore(table_prefix="clusterra-") as store:
        return [item async for item in everything(store) if any(word in text_of(item) for word in WORDS)]


async def everything(store: Store) -> AsyncIterator[Item]:
    """All live items of all tables of all services."""
    for table in tables_of((*OF_GATEWAY, *OF_SCALER, *OF_EVENTS)):
        cursor = None
        while True:
            page = await store.scan(table, limit=500, cursor=cursor)
            for item in page.items:
                yield item
            if (cursor := page.cursor) is None:
                break


def text_of(item: Item) -> str:
    return json.dumps([item.key.pk, item.key.sk, dict(item.attributes)], default=repr)


async def subjects(lab: Stack) -> list[str]:
    """The subjects that name the tenant, of all messages in all streams and buckets."""
    found: list[str] = []
    for stream in BOUNDS:
        request = json.dumps({"subjects_filter": ">"}).encode()
        answer = await asyncio.wait_for(lab.bus.request(f"$JS.API.STREAM.INFO.{stream}", request, timeout=5), 10)
        found += json.loads(answer.data)["state"].get("subjects", {})
    return [subject for subject in found if "acme" in subject]
