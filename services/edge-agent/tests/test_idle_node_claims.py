"""Which NodeClaim is overdue, for any history of machines and workers."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from clusterra_edge_agent.kubernetes.machines.idle_node_claims import IdleNodeClaims
from clusterra_edge_agent.kubernetes.machines.resources import Node, NodeClaim
from hypothesis import given
from hypothesis import strategies as st

IDLE_SECONDS = 480.0
NAMES = ("a", "b", "c")
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)

STATES = ("absent", "unlaunched", "no node", "unrecognised", "idle", "busy", "busy unrecognised", "going")
"""The states of a NodeClaim. `unrecognised`: its node has joined, and Karpenter has not noticed."""


def machine(name: str, state: str) -> tuple[NodeClaim, Node | None]:
    provider_id = "" if state == "unlaunched" else f"aws:///z/i-{name}"
    node_name = f"node-{name}" if state in ("idle", "busy", "going") else ""
    metadata: dict[str, Any] = {"name": name, "uid": name, "creationTimestamp": BIRTH}
    node = {"metadata": {**metadata, "name": f"node-{name}"}, "spec": {"providerID": provider_id}}
    status = {"providerID": provider_id, "nodeName": node_name}
    deleted = {"deletionTimestamp": BIRTH} if state == "going" else {}
    claim = NodeClaim.model_validate({"metadata": {**metadata, **deleted}, "status": status})
    return claim, None if state in ("unlaunched", "no node") else Node.model_validate(node)


passes = st.tuples(
    st.sampled_from((1.0, 10.0, 100.0, 479.0)),
    st.fixed_dictionaries({name: st.sampled_from(STATES) for name in NAMES}),
    st.booleans(),
)


@given(st.lists(passes, max_size=20))
def test_only_an_uninterruptedly_idle_node_claim_is_overdue(
    history: list[tuple[float, dict[str, str], bool]],
) -> None:
    idle_claims, now, since = IdleNodeClaims(IDLE_SECONDS), 1000.0, dict[str, float]()
    for seconds, states, blind in history:
        now += seconds
        if blind:
            idle_claims.reset()
            since.clear()
            continue
        machines = {name: machine(name, state) for name, state in states.items() if state != "absent"}
        found = idle_claims.overdue(
            [claim for claim, _ in machines.values()],
            [node for _, node in machines.values() if node],
            {f"node-{name}" for name, state in states.items() if state.startswith("busy")},
            now,
        )
        idle = {name for name, state in states.items() if state in ("unlaunched", "no node", "unrecognised", "idle")}
        since = {name: since.get(name, now) for name in idle}
        old = {name for name, start in since.items() if now - start >= IDLE_SECONDS}
        if found is None:
            assert not old
        else:
            assert found.name in old
            assert since[found.name] == min(since.values())


def test_a_new_node_claim_of_the_same_name_starts_over() -> None:
    idle_claims = IdleNodeClaims(IDLE_SECONDS)
    claim, _ = machine("a", "no node")
    assert idle_claims.overdue([claim], (), (), 0.0) is None
    successor = claim.model_copy(update={"metadata": replace(claim.metadata, uid="another")})
    assert idle_claims.overdue([successor], (), (), IDLE_SECONDS) is None
    assert idle_claims.overdue([successor], (), (), 2 * IDLE_SECONDS) == successor
