"""Wires the parts of the scaler together."""

from argparse import ArgumentParser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_contracts.rpc.forget import Forget
from clusterra_runtime.interpreter import collect_seldom, collect_young
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.broker import broker
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.streams.heartbeats import HeartbeatReader
from clusterra_runtime.nats.versions import announced
from clusterra_runtime.service import Service, run
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.record_level import RecordLevels
from clusterra_runtime.store.required_tables import RequiredTables
from clusterra_runtime.store.table_use import tables_of

from clusterra_scaler.cluster_runner import ClusterRunner
from clusterra_scaler.decisions.lanes import DecisionLanes
from clusterra_scaler.decisions.log import LARGE, decision_log
from clusterra_scaler.fleet_table import FLEETS, FORMS, TABLES
from clusterra_scaler.fleets import SERVICE, Fleets
from clusterra_scaler.forgetting import Forgetting
from clusterra_scaler.large_process.process import LargeProcess
from clusterra_scaler.settings import Settings
from clusterra_scaler.shards import Shards


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """Start every part of the scaler, and stop them at the end of the block."""
    settings = service.settings
    assert isinstance(settings, Settings)  # noqa: S101 - main passes these settings
    registry = Registry()
    logs = settings.decision_log_dir
    with (
        # A cluster may have been large before.
        decision_log(logs, settings.decision_log_bytes, *([logs / LARGE] if logs is not None else ())) as decisions,
        DecisionLanes() as lanes,
    ):
        async with DynamoDBStore(table_prefix=settings.table_prefix) as store:
            tables = RequiredTables(store, *tables_of(TABLES))
            service.ready_when(tables.UNREACHABLE, lambda: tables.reachable)
            service.ready_when(tables.MISSING, lambda: tables.exist)
            await tables.wait()
            levels = RecordLevels(store, FORMS)
            service.ready_when("records", lambda: levels.problem or True)
            await levels.wait()
            client = await bus.connect(settings, SERVICE)
            service.ready_when("connected to NATS", lambda: client.is_connected)
            try:
                async with (
                    announced(service, client),
                    broker(settings, SERVICE, client=client) as consuming,
                    Outbox(store, lambda subject, body, headers: bus.store(client, subject, body, headers)) as outbox,
                    LargeProcess() as large,
                ):
                    await registry.start(client)
                    await consuming.start()
                    fleets = Fleets(store, outbox)
                    runner = ClusterRunner(client, registry, fleets, lanes, decisions)
                    shards = Shards(consuming, registry, fleets, settings, runner, large)
                    service.ready_when("snapshots arrive", lambda: shards.receiving)
                    heartbeats = HeartbeatReader(client, shards.on_heartbeat, registry.max_heartbeat_bytes)
                    service.ready_when("heartbeats arrive", lambda: heartbeats.working)
                    forgetting = Forgetting(fleets, registry, decisions)
                    await rpc.serve(client, "forget.*.*.scaler", Forget, forgetting.forget, queue=SERVICE)
                    service.background("heartbeats", heartbeats.run)
                    service.background("shards", shards.run)
                    service.background("record levels", levels.watch)
                    service.background("outbox", lambda: outbox.relay(FLEETS))
                    service.background("garbage collection", collect_young)
                    yield
            finally:
                await registry.stop()
                await bus.close(client)


def main() -> None:
    """Run the scaler until it receives a stop signal. The command takes no arguments."""
    ArgumentParser(
        prog="clusterra-scaler",
        description="Runs the scaler with the settings in its environment (CLUSTERRA_*).",
        epilog="To simulate a trace or to replay a decision log, see `clusterra-planner --help`.",
    ).parse_args()
    collect_seldom()
    run(SERVICE, Settings(), app)
