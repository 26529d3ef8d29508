"""Which machine is a ghost, over any history of machines and workers."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from clusterra_edge_agent.kubernetes.machines.idle_node_claims import Ghosts
from clusterra_edge_agent.kubernetes.machines.resources import Node, NodeClaim
from hypothesis import given
from hypothesis import strategies as st

GHOST_SECONDS = 480.0
NAMES = ("a", "b", "c")
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)

LOOKS = ("absent", "unlaunched", "no node", "unrecognised", "idle", "busy", "busy unrecognised", "going")
"""What a NodeClaim can look like; `unrecognised`: its node has joined, and Karpenter has not noticed."""


def machine(name: str, look: str) -> tuple[NodeClaim, Node | None]:
    provider_id = "" if look == "unlaunched" else f"aws:///z/i-{name}"
    node_name = f"node-{name}" if look in ("idle", "busy", "going") else ""
    metadata: dict[str, Any] = {"name": name, "uid": name, "creationTimestamp": BIRTH}
    node = {"metadata": {**metadata, "name": f"node-{name}"}, "spec": {"providerID": provider_id}}
    status = {"providerID": provider_id, "nodeName": node_name}
    deleted = {"deletionTimestamp": BIRTH} if look == "going" else {}
    claim = NodeClaim.model_validate({"metadata": {**metadata, **deleted}, "status": status})
    return claim, None if look in ("unlaunched", "no node") else Node.model_validate(node)


passes = st.tuples(
    st.sampled_from((1.0, 10.0, 100.0, 479.0)),
    st.fixed_dictionaries({name: st.sampled_from(LOOKS) for name in NAMES}),
    st.booleans(),
)


@given(st.lists(passes, max_size=20))
def test_only_what_carried_no_worker_all_the_time_is_a_ghost(
    history: list[tuple[float, dict[str, str], bool]],
) -> None:
    ghosts, now, since = Ghosts(GHOST_SECONDS), 1000.0, dict[str, float]()
    for seconds, looks, blind in history:
        now += seconds
        if blind:
            ghosts.forget()
            since.clear()
            continue
        machines = {name: machine(name, look) for name, look in looks.items() if look != "absent"}
        found = ghosts.look(
            [claim for claim, _ in machines.values()],
            [node for _, node in machines.values() if node],
            {f"node-{name}" for name, look in looks.items() if look.startswith("busy")},
            now,
        )
        idle = {name for name, look in looks.items() if look in ("unlaunched", "no node", "unrecognised", "idle")}
        since = {name: since.get(name, now) for name in idle}
        old = {name for name, begin in since.items() if now - begin >= GHOST_SECONDS}
        if found is None:
            assert not old
        else:
            assert found.name in old
            assert since[found.name] == min(since.values())


def test_a_machine_of_the_same_name_begins_anew() -> None:
    ghosts = Ghosts(GHOST_SECONDS)
    claim, _ = machine("a", "no node")
    assert ghosts.look([claim], (), (), 0.0) is None
    successor = claim.model_copy(update={"metadata": replace(claim.metadata, uid="another")})
    assert ghosts.look([successor], (), (), GHOST_SECONDS) is None
    assert ghosts.look([successor], (), (), 2 * GHOST_SECONDS) == successor
