"""The events service as a process: what it delivers, over kills of itself and of NATS, and with its rights alone."""

import json
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import now
from clusterra_contracts.rpc import webhooks as rpc
from clusterra_contracts.rpc.forget import Forget, Forgotten
from clusterra_contracts.rpc.webhooks import Attempt
from clusterra_events.webhooks.state_table import DELIVERIES
from clusterra_lab.machine.process import until
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats.registry import delete_binding
from clusterra_runtime.nats.rpc import RpcFailed, call
from clusterra_runtime.store.dynamodb import DynamoDBStore

from .events_process import started
from .webhook_world import GUARD_SECONDS, REF, TENANT, World, deliver_from, receiver, webhook_at, world


@pytest.fixture
async def store(environment: dict[str, str], emulator: Aws) -> AsyncIterator[DynamoDBStore]:
    """The tables of the service, with all rights."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        async with DynamoDBStore(table_prefix=environment["CLUSTERRA_TABLE_PREFIX"]) as opened:
            yield opened


async def test_every_event_is_delivered_in_order_over_kills(
    environment: dict[str, str], nats: NatsServer, store: DynamoDBStore, tmp_path: Path
) -> None:
    own = {**environment, "CLUSTERRA_WEBHOOK_NETWORKS": json.dumps(["127.0.0.0/8"])}
    async with world(nats, store) as acme, receiver() as hook:
        webhook = webhook_at(hook.url, deliver_from=deliver_from(now() - timedelta(minutes=1)))
        await acme.put(webhook)
        process = await started(own, tmp_path)
        try:
            await acme.publish(range(40))
            await hook.has(10)
            process.kill()
            await process.wait()
            process = await process.again()
            await acme.publish(range(40, 60))
            await nats.kill()
            await nats.restart()
            await acme.publish(range(60, 80))
            await until(lambda: "n79" in hook.nodes(), seconds=GUARD_SECONDS, what="the last event", process=process)
            tested = await until(lambda: _tested(acme, webhook), seconds=GUARD_SECONDS, what="a test", process=process)
            assert await _forgotten(acme) >= 80
            left = (await store.scan(DELIVERIES, limit=10_000)).items
            process.signal(signal.SIGTERM)
            assert await process.wait() == 0
        finally:
            await process.stop()

    assert list(dict.fromkeys(hook.nodes())) == [f"n{number}" for number in range(80)]
    assert tested.delivered
    (progress,) = left
    assert progress.key.sk == webhook.id
    assert progress.expires_at is not None, "it is set aside for the tenant's next cluster"
    log = (tmp_path / "events.log").read_text()
    assert "visit_faulty" not in log
    assert "/hook" not in log


async def _tested(acme: World, webhook: object) -> Attempt | None:
    request = rpc.TestWebhook.model_validate({"webhook": webhook})
    try:
        return await call(acme.client, subjects.webhook_test(TENANT), request, Attempt, timeout_seconds=15)
    except RpcFailed:
        return None


async def _forgotten(acme: World) -> int:
    """Delete the only cluster of the tenant, and return how many records were removed."""
    await delete_binding(acme.client, REF)
    removed = 0

    async def all_removed() -> bool:
        nonlocal removed
        try:
            answer = await call(acme.client, subjects.forget(REF, "events"), Forget(), Forgotten, timeout_seconds=15)
        except RpcFailed:
            return False
        removed += answer.removed
        return answer.removed == 0 and removed > 0

    await until(all_removed, seconds=GUARD_SECONDS, what="nothing left to remove", every=0.1)
    return removed
