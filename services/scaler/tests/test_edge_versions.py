"""Edge-agents that are too old or too new are counted and logged once; the others are not."""

from datetime import UTC, datetime

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.versions import Contracts
from clusterra_scaler import edge_versions
from clusterra_scaler.edge_versions import INCOMPATIBLE_EDGES, TOLD_AT_ONCE, EdgeVersions
from prometheus_client import generate_latest
from structlog.testing import capture_logs

SUBJECT = Subject("heartbeat", ClusterRef(tenant="acme", cluster="main"))
OURS = Contracts(generation=3, oldest=2)


def heartbeat(contracts: Contracts | None) -> Heartbeat:
    return Heartbeat(
        generation=1,
        sent_at=datetime(2026, 3, 1, tzinfo=UTC),
        agent_version="0.0.9",
        contracts=contracts,
        substrate="process",
        workers=(),
    )


def counted() -> float:
    (sample,) = [sample for metric in INCOMPATIBLE_EDGES.collect() for sample in metric.samples]
    return sample.value


@pytest.mark.parametrize(
    ("theirs", "action"),
    [
        (None, "update the edge-agent of this cluster"),
        (Contracts(generation=1, oldest=1), "update the edge-agent of this cluster"),
        (Contracts(generation=5, oldest=4), "update the central services"),
    ],
)
def test_an_incompatible_agent_is_logged_once_and_counted_until_it_is_updated(
    theirs: Contracts | None, action: str
) -> None:
    edges = EdgeVersions(OURS)

    with capture_logs() as logged:
        for _ in range(3):
            edges.on_heartbeat(SUBJECT, heartbeat(theirs))

    assert [entry["action"] for entry in logged] == [action]
    assert counted() == 1
    assert b"clusterra_incompatible_edges 1.0" in generate_latest()

    edges.on_heartbeat(SUBJECT, heartbeat(Contracts(generation=4, oldest=3)))

    assert counted() == 0


def test_an_agent_that_was_not_heard_for_long_no_longer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = EdgeVersions(OURS)
    edges.on_heartbeat(SUBJECT, heartbeat(None))

    monkeypatch.setattr(edge_versions, "HEARD_SECONDS", -1.0)

    assert counted() == 0


def test_an_agent_that_says_what_it_likes_does_not_fill_the_log() -> None:
    edges = EdgeVersions(OURS)

    with capture_logs() as logged:
        for generation in range(10, 110):
            said = heartbeat(Contracts(generation=generation, oldest=generation))
            edges.on_heartbeat(SUBJECT, said.model_copy(update={"agent_version": "x" * 2_000_000}))

    assert len(logged) == TOLD_AT_ONCE
    assert len(str(logged)) < 2_000
    assert counted() == 1
