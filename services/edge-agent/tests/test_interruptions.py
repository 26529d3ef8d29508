"""Interruptions of workers whose machines are being deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any

from clusterra_edge_agent.kubernetes.client.resources import Pod
from clusterra_edge_agent.kubernetes.machines.interruptions import INTERRUPTION_NOTICE, interruptions
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


def test_a_deleted_node_claim_or_node_interrupts_its_workers() -> None:
    assert interruptions(PODS, [node("n1"), node("n2")], [claim("c1", "n1", LATER), claim("c2", "n2")]) == {
        "one": LATER + INTERRUPTION_NOTICE
    }
    assert interruptions(PODS, [node("n1"), node("n2", LATER)], None) == {"two": LATER + INTERRUPTION_NOTICE}


def test_the_earlier_deletion_counts() -> None:
    deleted = [claim("c1", "n1", LATER)]
    assert interruptions(PODS, [node("n1", LATER + INTERRUPTION_NOTICE)], deleted) == {
        "one": LATER + INTERRUPTION_NOTICE
    }


def test_unknown_machines_and_claims_without_a_node_interrupt_nothing() -> None:
    assert interruptions(PODS, None, None) == {}
    assert interruptions(PODS, [], [claim("c1", "", LATER)]) == {}
