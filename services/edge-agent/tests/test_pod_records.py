"""Which events are published for a pod, for any history and across restarts of the agent."""

import json
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusterra_contracts.events import MisclassifiedFact
from clusterra_edge_agent.kubernetes.client.resources import DELETION_COST, Pod
from clusterra_edge_agent.kubernetes.workers.pod_records import PodRecords
from clusterra_edge_agent.kubernetes.workers.replicas import VICTIM_COST
from hypothesis import given
from hypothesis import strategies as st

NAME, SHAPE = "slurmd-general-xs-1", "general-xs"
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
MISCLASSIFIED = (
    '{"misclassified": {"expected": {"cpus": 4, "memory_mib": 900}, "actual": {"cpus": 2, "memory_mib": 800}}}'
)

STATES = ("pending", "running", "misclassified", "failed", "cancelled", "terminating", "ending")
"""`cancelled`: its deletion is accepted and it has not started; `ending`: its containers have ended, but it still
exists."""
DELETED = ("cancelled", "terminating", "ending")


def pod(state: str, cost: int = 0) -> Pod:
    metadata: dict[str, Any] = {"name": NAME, "uid": "uid-1", "creationTimestamp": BIRTH}
    if cost:
        metadata["annotations"] = {DELETION_COST: str(cost)}
    if state in DELETED:
        metadata["deletionTimestamp"] = BIRTH
    phase = {"pending": "Pending", "cancelled": "Pending", "failed": "Failed", "ending": "Failed"}.get(state, "Running")
    ended = {"state": {"terminated": {"exitCode": 78, "message": MISCLASSIFIED}}}
    status = {"phase": phase, "containerStatuses": [ended] if state == "misclassified" else []}
    return Pod.model_validate({"metadata": metadata, "spec": {"nodeName": "node-1"}, "status": status})


steps = st.one_of(st.sampled_from(STATES), st.sampled_from(("restart", "publish one", "named")))


@given(st.lists(steps, max_size=12))
def test_each_event_of_a_pod_is_published_once_and_its_end_last(history: list[str]) -> None:
    published = list[Any]()
    with tempfile.TemporaryDirectory() as folder:
        records, present, named = PodRecords(Path(folder)), None, False
        states = list[str]()

        def publish(event: Any) -> None:
            published.append(event)
            records.mark_published(event)

        for step in history:
            match step:
                case "restart":
                    records = PodRecords(Path(folder))
                    if present:
                        records.observe(None, present, SHAPE)
                case "publish one":
                    for event in records.pending_events()[:1]:
                        publish(event)
                case "named":
                    if present and not present.terminating and "running" in states:
                        named = True
                        records.mark_removing([present], {NAME})
                case state if not {*DELETED, "failed"} & set(states) or (
                    {state, states[-1]} < set(DELETED) and DELETED.index(state) > DELETED.index(states[-1])
                ):
                    states.append(state)
                    present, old = pod(state), present
                    records.observe(old, present, SHAPE)
                case _:
                    pass
        while records.pending_events():
            publish(records.pending_events()[0])
        if present:
            records.observe(present, None, SHAPE)
        while records.pending_events():
            publish(records.pending_events()[0])
        assert records.pending_events() == PodRecords(Path(folder)).pending_events() == ()
        assert not list(Path(folder).iterdir()), "its record is deleted"
    kinds = [event.fact.kind for event in published]
    assert set(Counter(kinds).values()) <= {1}
    assert ("node.misclassified" in kinds) == ("misclassified" in states)
    for event in published:
        if isinstance(event.fact, MisclassifiedFact):
            assert (event.fact.node, event.version) == ("node-1", "uid-1")
    if states:
        # Its containers may start although it has been deleted: that loses no worker.
        began = set(states[: states.index("cancelled")] if "cancelled" in states else states) - {"pending"}
        end = "worker.stopped" if named or not began else "worker.lost"
        assert kinds[-1] == ("worker.failed" if "failed" in states else end)


def test_a_worker_is_lost_once_its_deletion_is_observed() -> None:
    with tempfile.TemporaryDirectory() as folder:
        records = PodRecords(Path(folder))
        records.observe(None, pod("running"), SHAPE)
        records.observe(pod("running"), pod("terminating"), SHAPE)

        assert [event.fact.kind for event in records.pending_events()] == ["worker.started", "worker.lost"]

        for event in records.pending_events():
            records.mark_published(event)
        records.observe(pod("terminating"), pod("terminating"), SHAPE)
        assert records.pending_events() == ()

        records.observe(pod("terminating"), None, SHAPE)
        assert records.pending_events() == ()
        assert not list(Path(folder).iterdir())


def test_a_victim_that_is_taken_back_counts_as_removed_until_its_mark_is_gone(tmp_path: Path) -> None:
    marked = pod("running", VICTIM_COST)
    records = PodRecords(tmp_path)
    records.observe(None, pod("running"), SHAPE)
    records.mark_removing([pod("running")], {NAME})
    records.observe(pod("running"), marked, SHAPE)

    records.mark_removing([marked], set())
    records.observe(marked, pod("terminating", VICTIM_COST), SHAPE)
    records.observe(pod("terminating", VICTIM_COST), None, SHAPE)

    assert [event.fact.kind for event in records.pending_events()] == ["worker.started", "worker.stopped"]


def test_a_victim_that_is_taken_back_is_lost_when_it_is_deleted_without_its_mark(tmp_path: Path) -> None:
    records = PodRecords(tmp_path)
    records.observe(None, pod("running"), SHAPE)
    records.mark_removing([pod("running")], {NAME})
    records.mark_removing([pod("running", VICTIM_COST)], set())
    records.mark_removing([pod("running")], set())

    records.observe(pod("running"), pod("terminating"), SHAPE)

    assert [event.fact.kind for event in records.pending_events()] == ["worker.started", "worker.lost"]


def test_stored_records_keep_the_field_names_of_earlier_versions(tmp_path: Path) -> None:
    size = {"cpus": 4, "memory_mib": 900, "gpus": 0, "gpu_model": ""}
    stored: dict[str, Any] = {
        "name": NAME,
        "shape": SHAPE,
        "started_at": "2026-01-01T00:00:00Z",
        "start_told": True,
        "removing": False,
        "end": None,
        "ended_at": None,
        "reason": "",
        "uid": "uid-1",
        "began": True,
        "end_told": False,
        "refusal": {
            "node": "node-1",
            "expected": size,
            "actual": size,
            "seen_at": "2026-01-01T00:00:00Z",
            "told": False,
        },
    }
    file = tmp_path / "uid-1.json"
    file.write_text(json.dumps(stored))

    records = PodRecords(tmp_path)
    (event,) = records.pending_events()
    records.observe(None, pod("running"), SHAPE)
    records.mark_published(event)

    assert event.fact.kind == "node.misclassified"
    assert json.loads(file.read_text()) == stored | {"refusal": stored["refusal"] | {"told": True}}
