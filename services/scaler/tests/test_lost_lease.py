"""What is left of a cluster when its shard's lease is lost."""

import asyncio
from unittest.mock import Mock

import clusterra_scaler.cluster_runner
import pytest
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_runtime.metrics import exposition
from clusterra_scaler.cluster_runner import ClusterRunner
from clusterra_scaler.control_loop import FencedLease
from clusterra_scaler.decisions.lanes import DecisionLanes

REF = ClusterRef(tenant="lost-lease", cluster="main")
SNAPSHOT = QueueSnapshot(generation=1, taken_at=now(), pending=(), running=(), nodes=())


def exported() -> bool:
    return REF.tenant.encode() in exposition()[0]


async def test_metrics_end_with_a_lease_that_is_lost_during_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = asyncio.Event()

    async def last_snapshot(*_: object) -> QueueSnapshot:
        return SNAPSHOT

    async def last_heartbeat(*_: object) -> None:
        replayed.set()
        await asyncio.Event().wait()  # the last heartbeat's answer does not arrive

    monkeypatch.setattr(clusterra_scaler.cluster_runner, "last_snapshot", last_snapshot)
    monkeypatch.setattr(clusterra_scaler.cluster_runner, "last_heartbeat", last_heartbeat)
    registry = Mock(get=Mock(return_value=Mock(spec=ClusterBinding, policy=ScalingPolicy())))
    runner = ClusterRunner(Mock(), registry, Mock(), DecisionLanes())
    working = asyncio.create_task(runner.run(REF, FencedLease(1, lambda: True)))
    await asyncio.wait_for(replayed.wait(), 90)
    assert exported()

    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert not exported()
