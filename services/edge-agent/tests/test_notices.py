"""Workers on machines that are being deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any

from clusterra_edge_agent.kubernetes.client.resources import Pod
from clusterra_edge_agent.kubernetes.machines.interruptions import NOTICE, notices
from clusterra_edge_agent.kubernetes.machines.resources import Node, NodeClaim

BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
LATER = BIRTH + timedelta(hours=1)


def pod(name: str, node: str) -> Pod:
    return Pod.model_validate({"metadata": {"name": name, "uid": name}, "spec": {"nodeName": node}})


def metadata(name: str, deleted_at: datetime | None) -> dict[str, Any]:
    deleted = {} if deleted_at is None else {"deletionTimestamp": deleted_at.isoformat()}
    return {"name": name, "uid": name, "creationTimestamp": BIRTH.isoformat(), **deleted}


def node(name: str, deleted_at: datetime | None = None) -> Node:
    return Node.model_validate({"metadata": metadata(name, deleted_at)})


def claim(name: str, node_name: str, deleted_at: datetime | None = None) -> NodeClaim:
    return NodeClaim.model_validate({"metadata": metadata(name, deleted_at), "status": {"nodeName": node_name}})


PODS = {"general-xs": {"one": pod("one", "n1"), "new": pod("new", "")}, "memory-xs": {"two": pod("two", "n2")}}


def test_a_claim_or_a_node_that_is_deleted_announces_the_end_of_its_workers() -> None:
    assert notices(PODS, [node("n1"), node("n2")], [claim("c1", "n1", LATER), claim("c2", "n2")]) == {
        "one": LATER + NOTICE
    }
    assert notices(PODS, [node("n1"), node("n2", LATER)], None) == {"two": LATER + NOTICE}


def test_the_earlier_word_counts() -> None:
    deleted = [claim("c1", "n1", LATER)]
    assert notices(PODS, [node("n1", LATER + NOTICE)], deleted) == {"one": LATER + NOTICE}


def test_nothing_is_announced_by_what_has_no_node_or_cannot_be_seen() -> None:
    assert notices(PODS, None, None) == {}
    assert notices(PODS, [], [claim("c1", "", LATER)]) == {}
