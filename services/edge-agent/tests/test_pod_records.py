"""What is told of a pod, whatever happens to it and however often its agent starts anew."""

import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusterra_contracts.events import MisclassifiedFact
from clusterra_edge_agent.kubernetes.client.resources import Pod
from clusterra_edge_agent.kubernetes.workers.pod_records import PodRecords
from hypothesis import given
from hypothesis import strategies as st

NAME, SHAPE = "slurmd-general-xs-1", "general-xs"
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = '{"misclassified": {"expected": {"cpus": 4, "memory_mib": 900}, "actual": {"cpus": 2, "memory_mib": 800}}}'

LOOKS = ("pending", "running", "refused", "failed", "cancelled", "terminating", "ending")
"""`cancelled`: its deletion is accepted and it has not started; `ending`: its containers have ended, but it is still
there."""
DELETED = ("cancelled", "terminating", "ending")


def pod(look: str) -> Pod:
    metadata: dict[str, Any] = {"name": NAME, "uid": "uid-1", "creationTimestamp": BIRTH}
    if look in DELETED:
        metadata["deletionTimestamp"] = BIRTH
    phase = {"pending": "Pending", "cancelled": "Pending", "failed": "Failed", "ending": "Failed"}.get(look, "Running")
    ended = {"state": {"terminated": {"exitCode": 78, "message": REFUSED}}}
    status = {"phase": phase, "containerStatuses": [ended] if look == "refused" else []}
    return Pod.model_validate({"metadata": metadata, "spec": {"nodeName": "node-1"}, "status": status})


steps = st.one_of(st.sampled_from(LOOKS), st.sampled_from(("restart", "tell one", "named")))


@given(st.lists(steps, max_size=12))
def test_each_fact_of_a_pod_is_told_once_and_its_end_last(history: list[str]) -> None:
    told = list[Any]()
    with tempfile.TemporaryDirectory() as folder:
        records, present, named = PodRecords(Path(folder)), None, False
        seen = list[str]()

        def tell(news: Any) -> None:
            told.append(news)
            records.told(news)

        for step in history:
            match step:
                case "restart":
                    records = PodRecords(Path(folder))
                    if present:
                        records.observe(None, present, SHAPE)
                case "tell one":
                    for news in records.untold()[:1]:
                        tell(news)
                case "named":
                    if present and not present.terminating and "running" in seen:
                        named = True
                        records.expect_to_go([present], {NAME})
                case look if not {*DELETED, "failed"} & set(seen) or (
                    {look, seen[-1]} < set(DELETED) and DELETED.index(look) > DELETED.index(seen[-1])
                ):
                    seen.append(look)
                    present, old = pod(look), present
                    records.observe(old, present, SHAPE)
                case _:
                    pass
        while records.untold():
            tell(records.untold()[0])
        if present:
            records.observe(present, None, SHAPE)
        while records.untold():
            tell(records.untold()[0])
        assert records.untold() == PodRecords(Path(folder)).untold() == ()
        assert not list(Path(folder).iterdir()), "it is forgotten"
    kinds = [news.fact.kind for news in told]
    assert set(Counter(kinds).values()) <= {1}
    assert ("node.misclassified" in kinds) == ("refused" in seen)
    for news in told:
        if isinstance(news.fact, MisclassifiedFact):
            assert (news.fact.node, news.version) == ("node-1", "uid-1")
    if seen:
        # Its containers may start though it has been deleted: nobody loses a worker by that.
        began = set(seen[: seen.index("cancelled")] if "cancelled" in seen else seen) - {"pending"}
        end = "worker.stopped" if named or not began else "worker.lost"
        assert kinds[-1] == ("worker.failed" if "failed" in seen else end)


def test_a_worker_is_lost_from_the_moment_that_its_deletion_is_seen() -> None:
    with tempfile.TemporaryDirectory() as folder:
        records = PodRecords(Path(folder))
        records.observe(None, pod("running"), SHAPE)
        records.observe(pod("running"), pod("terminating"), SHAPE)
        assert [news.fact.kind for news in records.untold()] == ["worker.started", "worker.lost"]
        for news in records.untold():
            records.told(news)
        records.observe(pod("terminating"), pod("terminating"), SHAPE)
        assert records.untold() == ()
        records.observe(pod("terminating"), None, SHAPE)
        assert records.untold() == ()
        assert not list(Path(folder).iterdir())
