"""The metrics of each cluster, and how they end."""

import time
from collections.abc import Iterator

import pytest
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_runtime.metrics import exposition
from clusterra_scaler.cluster_metrics import ClusterMetrics

CLUSTERS = 2000
SNAPSHOT = QueueSnapshot(generation=1, taken_at=now(), pending=(), running=(), nodes=())
HEARTBEAT = Heartbeat(generation=1, sent_at=now(), agent_version="1", substrate="process", workers=())


@pytest.fixture
def clusters() -> Iterator[list[ClusterMetrics]]:
    """Many clusters with a snapshot and a heartbeat each; the gauges of decisions have no series."""
    made = [ClusterMetrics(ClusterRef(tenant=f"metrics-{number}", cluster="main")) for number in range(CLUSTERS)]
    for metrics in made:
        metrics.on_snapshot(SNAPSHOT)
        metrics.on_heartbeat(HEARTBEAT)
    yield made
    for metrics in made:
        metrics.remove()


def exported(text: str) -> int:
    """The number of series of the test's clusters."""
    return exposition()[0].count(f'tenant="{text}'.encode())


def test_a_removed_cluster_leaves_no_series_and_the_others_stay(clusters: list[ClusterMetrics]) -> None:
    before = exported("metrics-")

    clusters[7].remove()
    clusters[7].remove()

    assert exported('metrics-7"') == 0
    assert exported("metrics-") == before * (CLUSTERS - 1) // CLUSTERS


def test_the_end_of_a_shard_does_not_hold_the_event_loop(clusters: list[ClusterMetrics]) -> None:
    started = time.perf_counter()
    for metrics in clusters[: CLUSTERS // 8]:
        metrics.remove()

    # A removal that walks through all series is quadratic in the number of clusters.
    assert time.perf_counter() - started < 0.5
