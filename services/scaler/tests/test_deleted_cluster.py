"""A cluster that is deleted buys nothing, its workers go as their jobs end, and then the scaler forgets it."""

from pathlib import Path

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.queue import NodeState, RunningJob
from clusterra_contracts.rpc.forget import Forget
from clusterra_contracts.rpc.slurm_nodes import Drain
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_scaler.decisions.log import DecisionLog, decision_log
from clusterra_scaler.fleet_table import FLEETS
from clusterra_scaler.fleets import Fleets, Recorded
from clusterra_scaler.forgetting import Forgetting
from clusterra_scaler.planner.decide import Decision, decide
from clusterra_scaler.planner.estimates.run_history import RunHistory
from clusterra_scaler.planner.observed.observation_history import ObservationHistory
from clusterra_scaler.planner.observed.state import FleetState
from fleet_examples import (
    NOW,
    OUR_DRAIN,
    at,
    binding,
    edge,
    group,
    node,
    observation,
    running,
    snapshot,
    state,
    target,
    worker,
)

NAMES = ("compute-xs-1", "compute-xs-2")
ACME, RIVAL = (ClusterRef(tenant=tenant, cluster="main") for tenant in ("acme", "rival"))


def decide_on(*records: NodeState, runs: tuple[RunningJob, ...] = (), drains: bool = False) -> Decision:
    names = [record.name for record in records]
    view = observation(snapshot((group("9"),), runs, records), edge(*map(worker, names)), warm={"compute-xs": 1})
    deleted = view.binding.model_copy(update={"deleting": True, "state": "paused"})
    before = state(target("compute-xs", len(names)), generation=1)
    if drains:
        before = before.model_copy(update={"drains": {name: at(NOW - 60) for name in names}})
    return decide(type(view)(deleted, view.snapshot, view.edge, view.now), before, ObservationHistory())


def drained(decision: Decision) -> list[tuple[str, str]]:
    return [(action.node, action.reason) for action in decision.actions if isinstance(action, Drain)]


def test_idle_and_busy_workers_are_drained_at_once_and_none_is_bought() -> None:
    busy, idle = node(NAMES[0], "MIXED", used=1), node(NAMES[1], idle_for=1)

    decision = decide_on(busy, idle, runs=(running("7", NAMES[0]),))

    assert drained(decision) == [(name, "its cluster is being deleted") for name in NAMES]
    assert not decision.changes


def test_a_drained_worker_goes_once_its_job_has_ended_and_not_before() -> None:
    busy = node(NAMES[0], "MIXED", "DRAIN", reason=OUR_DRAIN, used=1)
    free = node(NAMES[1], "IDLE", "DRAIN", reason=OUR_DRAIN)

    decision = decide_on(busy, free, runs=(running("7", NAMES[0]),), drains=True)

    assert decision.state.target("compute-xs") == target("compute-xs", 1, NAMES[1])


async def test_the_fleet_of_a_removed_cluster_is_forgotten_and_no_other() -> None:
    async with MemoryStore() as store, Outbox(store, _unpublished) as outbox:
        await store.create_tables(FLEETS)
        fleets = Fleets(store, outbox)
        for ref in (ACME, RIVAL):
            await fleets.record_state(ref, Recorded(FleetState.initial(at(0)), 0), FleetState.initial(at(0)))
            await fleets.store_history(ref, RunHistory())
        forgetting, asked = Forgetting(fleets, Registry()), Subject("forget", ACME, "scaler")

        assert (await forgetting.forget(asked, Forget())).removed == 2

        assert (await forgetting.forget(asked, Forget())).removed == 0
        assert (await store.query(FLEETS, ACME.key)).items == ()
        assert len((await store.query(FLEETS, RIVAL.key)).items) == 2


async def test_the_logged_decisions_of_a_removed_cluster_are_deleted_and_no_others(tmp_path: Path) -> None:
    for name in ("acme.main.jsonl", "acme.main.20260301T121640.000000.jsonl", "acme.main2.jsonl", "rival.main.jsonl"):
        for directory in (tmp_path, tmp_path / "large"):
            directory.mkdir(exist_ok=True)
            (directory / name).write_text("{}\n")
    async with MemoryStore() as store, Outbox(store, _unpublished) as outbox:
        await store.create_tables(FLEETS)
        with decision_log(tmp_path, 1024, tmp_path / "large", tmp_path / "none") as log:
            forgetting = Forgetting(Fleets(store, outbox), Registry(), log)
            await forgetting.forget(Subject("forget", ACME, "scaler"), Forget())
            await forgetting.forget(Subject("forget", ACME, "scaler"), Forget())

    for directory in (tmp_path, tmp_path / "large"):
        assert {each.name for each in directory.glob("*.jsonl")} == {"acme.main2.jsonl", "rival.main.jsonl"}


async def test_a_log_that_cannot_be_deleted_keeps_the_fleet_and_tells_no_path(tmp_path: Path) -> None:
    (tmp_path / "acme.main.jsonl").mkdir()
    async with MemoryStore() as store, Outbox(store, _unpublished) as outbox:
        await store.create_tables(FLEETS)
        fleets = Fleets(store, outbox)
        await fleets.store_history(ACME, RunHistory())
        with decision_log(tmp_path, 1024) as log, pytest.raises(RpcFailed) as failed:
            await Forgetting(fleets, Registry(), log).forget(Subject("forget", ACME, "scaler"), Forget())

        assert len((await store.query(FLEETS, ACME.key)).items) == 1

    assert failed.value.error.kind == "unavailable"
    assert str(tmp_path) not in failed.value.error.detail


async def test_what_is_logged_after_a_cluster_was_forgotten_costs_no_other_file(tmp_path: Path) -> None:
    for cluster in ("main", "other", "third"):
        (tmp_path / f"acme.{cluster}.jsonl").write_bytes(b" " * 4000)
    log = DecisionLog(tmp_path, 10_000)
    log._bytes = 12_000
    await log.forget(ACME)

    log._delete_oldest(keep=tmp_path / "acme.other.jsonl")
    log.stop()

    assert {each.name for each in tmp_path.iterdir()} == {"acme.other.jsonl", "acme.third.jsonl"}
    assert log._bytes == 8_000


async def test_a_cluster_in_the_registry_is_not_forgotten() -> None:
    registry = Registry()
    registry._clusters[ACME] = binding()
    async with MemoryStore() as store, Outbox(store, _unpublished) as outbox:
        forgetting = Forgetting(Fleets(store, outbox), registry)

        with pytest.raises(RpcFailed) as failed:
            await forgetting.forget(Subject("forget", ACME, "scaler"), Forget())

    assert failed.value.error.kind == "conflict"


async def _unpublished(*_message: object) -> None:
    """These records have no events."""
