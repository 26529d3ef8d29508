"""The documented agents' protocol: whatever an agent sends and whatever is known, no worker is removed by mistake."""

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from clusterra_contracts.agent_http import (
    AgentHeartbeat,
    AgentHeartbeatReply,
    AgentNodeClaim,
    AgentPrice,
    CapacityPods,
    FreeShape,
)
from clusterra_contracts.heartbeat import Heartbeat, NodeClaim, Price, Worker
from clusterra_contracts.queue import NodeState, QueueSnapshot, RunningJob
from clusterra_contracts.scale import DesiredState, ShapeTarget
from clusterra_contracts.shapes import WorkerSpec
from clusterra_gateway.clusters.agents.translation import (
    MAX_SNAPSHOT_AGE_SECONDS,
    CentralState,
    bus_heartbeat,
    http_reply,
    takes_free_shapes,
    version_of,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPEC = WorkerSpec(cpus=2, memory_mib=2104)
SPECS = {"compute-xs": SPEC, "memory-xs": WorkerSpec(cpus=2, memory_mib=13471)}
SHAPES = [*SPECS, "from-elsewhere"]
MEMORY = FreeShape(arch="arm64", vcpus=2, mem_gib=14)


def desired_state(*targets: ShapeTarget, fence: int = 1, generation: int = 1, opinion: bool = True) -> DesiredState:
    return DesiredState(
        generation=generation,
        fence=fence,
        snapshot_generation=1,
        decided_at=NOW,
        targets=targets if opinion else None,
    )


def target(shape: str, replicas: int, *victims: str) -> ShapeTarget:
    return ShapeTarget(shape=shape, worker=SPECS.get(shape, SPEC), replicas=replicas, victims=victims)


def snapshot(*busy: str, age_seconds: float = 1.0, readable: bool = True) -> QueueSnapshot:
    running = tuple(
        RunningJob(job_id=str(number), uid=1, user="ada", nodes=(node,), cpus=1, started_at=NOW)
        for number, node in enumerate(busy, 1)
    )
    return QueueSnapshot(
        generation=1,
        taken_at=NOW - timedelta(seconds=age_seconds),
        pending=(),
        running=running if readable else None,
        nodes=(),
    )


def central_state(desired: DesiredState | None = None, queue: QueueSnapshot | None = None) -> CentralState:
    return CentralState(desired, queue, SPECS, NOW)


def heartbeat(
    pods: dict[str, int],
    nodes: tuple[str, ...] | None = (),
    *,
    version: str = "5.0.0",
    last: int = 0,
    claims: tuple[AgentNodeClaim, ...] | None = None,
    prices: tuple[AgentPrice, ...] | None = None,
) -> AgentHeartbeat:
    return AgentHeartbeat(
        cluster_id="main",
        agent_version=version,
        capacity_pods={name: CapacityPods(count=count) for name, count in pods.items()},
        last_applied_version=last,
        k8s_nodes=nodes,
        nodeclaims=claims,
        prices=prices,
    )


def replicas(reply: AgentHeartbeatReply) -> dict[str, int]:
    """The number of workers of each shape in a reply."""
    assert reply.scaling_commands is not None
    return {command.name: command.replicas for command in reply.scaling_commands}


def own_heartbeat(*workers: str) -> Heartbeat:
    return Heartbeat(
        generation=7,
        sent_at=NOW,
        agent_version="0.1.0",
        substrate="process",
        workers=tuple(Worker(name=name, shape="compute-xs", phase="running", started_at=NOW) for name in workers),
    )


# A model of a documented agent, by its published behaviour.


@dataclass(frozen=True)
class Pod:
    shape: str
    node: str | None


def pods_kept(pods: list[Pod], reply: AgentHeartbeatReply) -> list[Pod]:
    """The pods that a documented agent keeps after this reply."""
    wanted = replicas(reply)
    protected = set(reply.protected_nodes)
    kept = []
    for shape in {pod.shape for pod in pods}:
        ours = [pod for pod in pods if pod.shape == shape]
        order = sorted(ours, key=lambda pod: 0 if pod.node is None else 2 if pod.node in protected else 1)
        kept += order[max(0, len(ours) - wanted.get(shape, 0)) :]
    return kept


@dataclass(frozen=True)
class Fleet:
    """Pods on nodes of their own, nodes that remain without a pod, and which of them are busy or drained."""

    pods: list[Pod]
    lingering: list[str]
    busy: frozenset[str]
    drained: frozenset[str]

    @property
    def nodes(self) -> tuple[str, ...]:
        return (*(pod.node for pod in self.pods if pod.node), *self.lingering)

    @property
    def counts(self) -> dict[str, int]:
        return Counter(pod.shape for pod in self.pods)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    places = draw(st.lists(st.tuples(st.sampled_from(SHAPES), st.sampled_from(["new", "busy", "idle", "drained"]))))
    pods = [Pod(shape, None if at == "new" else f"node-{number}") for number, (shape, at) in enumerate(places)]
    lingering = [f"old-{number}" for number in range(draw(st.integers(0, 3)))]
    named = {
        at: frozenset(f"node-{n}" for n, (_, place) in enumerate(places) if place == at) for at in ("busy", "drained")
    }
    return Fleet(pods, lingering, named["busy"], named["drained"] | frozenset(lingering))


def heartbeat_of(fleet: Fleet, *, version: str = "5.0.0", last: int = 0, nodes: bool = True) -> AgentHeartbeat:
    return heartbeat(fleet.counts, fleet.nodes if nodes else None, version=version, last=last)


@st.composite
def decidable_states(draw: st.DrawFn, fleet: Fleet) -> DesiredState:
    """Desired states that a scaler may decide: a shape's count covers its present workers that are no victims."""
    targets = []
    for shape in draw(st.sets(st.sampled_from(SHAPES))):
        of_shape = {pod.node for pod in fleet.pods if pod.shape == shape and pod.node}
        victims = (
            draw(st.sets(st.sampled_from(sorted(of_shape & fleet.drained | set(fleet.lingering)))))
            if (of_shape & fleet.drained or fleet.lingering)
            else set()
        )
        replicas = len(of_shape - victims) + draw(st.integers(0, 3))
        targets.append(target(shape, replicas, *sorted(victims)))
    return desired_state(*targets)


@given(st.data(), fleets())
def test_only_victims_and_pods_without_a_node_are_removed(data: st.DataObject, fleet: Fleet) -> None:
    desired = data.draw(decidable_states(fleet))

    answer = http_reply(heartbeat_of(fleet), central_state(desired, snapshot(*fleet.busy)))

    removed = {pod.node for pod in fleet.pods} - {pod.node for pod in pods_kept(fleet.pods, answer)} - {None}
    victims = {name for each in desired.targets or () for name in each.victims}
    assert removed <= victims
    assert fleet.busy <= set(answer.protected_nodes)


@given(st.data(), fleets())
def test_nothing_is_removed_without_an_opinion(data: st.DataObject, fleet: Fleet) -> None:
    newer = data.draw(decidable_states(fleet))
    ahead = version_of(newer) + data.draw(st.integers(1, 2**40))
    queue = data.draw(st.sampled_from([None, snapshot(), snapshot(*fleet.busy), snapshot(readable=False)]))

    for desired, last in ((None, 0), (desired_state(opinion=False), 0), (desired_state(), 0), (newer, ahead)):
        for version in ("5.0.0", "4.2.0"):
            answer = http_reply(heartbeat_of(fleet, version=version, last=last), central_state(desired, queue))
            assert answer.scaling_commands is not None
            shapes = {command.name.removeprefix("slurmd-"): command.replicas for command in answer.scaling_commands}
            assert shapes == fleet.counts
            assert answer.scaling_commands_version >= last


@given(st.data(), fleets())
def test_nothing_is_removed_while_the_running_jobs_are_unknown(data: st.DataObject, fleet: Fleet) -> None:
    desired = data.draw(decidable_states(fleet))
    old = snapshot(*fleet.busy, age_seconds=MAX_SNAPSHOT_AGE_SECONDS + 1)

    for queue in (None, old, snapshot(readable=False)):
        answer = http_reply(heartbeat_of(fleet), central_state(desired, queue))
        assert pods_kept(fleet.pods, answer) == pods_kept(
            fleet.pods, http_reply(heartbeat_of(fleet), central_state(None, queue))
        )
        assert set(fleet.nodes) <= set(answer.protected_nodes)

    without_nodes = http_reply(heartbeat_of(fleet, nodes=False), central_state(desired, snapshot(*fleet.busy)))
    assert all(replicas(without_nodes)[shape] >= count for shape, count in fleet.counts.items())


@given(st.data(), fleets())
def test_the_numbers_of_agents_before_version_5_never_fall(data: st.DataObject, fleet: Fleet) -> None:
    desired = data.draw(decidable_states(fleet))

    answer = http_reply(heartbeat_of(fleet, version="4.9.9"), central_state(desired, snapshot(*fleet.busy)))

    for command in answer.scaling_commands or ():
        assert command.name == f"slurmd-{command.shape}"
        assert command.replicas >= fleet.counts.get(str(command.shape), 0)


@given(st.data(), fleets())
def test_the_same_heartbeat_gets_the_same_reply(data: st.DataObject, fleet: Fleet) -> None:
    central = central_state(data.draw(decidable_states(fleet)), snapshot(*fleet.busy))

    first = http_reply(heartbeat_of(fleet), central)
    assert http_reply(heartbeat_of(fleet), central) == first

    again = heartbeat_of(fleet, last=first.scaling_commands_version)
    assert http_reply(again, central).scaling_commands == first.scaling_commands


orders = st.tuples(st.integers(0, 2**52), st.integers(1, 2**40))
FIRST_FENCE = int(NOW.timestamp() * 1_000_000)


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(1, 1000)), min_size=1))
def test_versions_rise_over_decisions_and_takeovers(steps: list[tuple[int, int]]) -> None:
    fence, generation = FIRST_FENCE, 1
    last = version_of(desired_state(fence=fence, generation=generation))

    for takeover, decisions in steps:
        fence, generation = fence + takeover, generation + decisions
        version = version_of(desired_state(fence=fence, generation=generation))
        assert last < version < 2**63, "agents store versions in 63 bits"
        last = version


@given(st.integers(1, 1_000_000), st.integers(1, 2**40))
def test_versions_rise_when_generations_start_again(takeover: int, generation: int) -> None:
    before = desired_state(fence=FIRST_FENCE, generation=min(generation, 1024 * takeover))
    assert version_of(before) < version_of(desired_state(fence=FIRST_FENCE + takeover, generation=1))


@given(st.lists(st.none() | orders), st.integers(0, 2**62))
def test_the_version_that_an_agent_gets_never_falls(known: list[tuple[int, int] | None], last: int) -> None:
    for order in known:
        desired = None if order is None else desired_state(fence=order[0], generation=order[1])
        version = http_reply(heartbeat({}, last=last), central_state(desired)).scaling_commands_version
        assert version >= last
        last = version


@pytest.mark.parametrize(
    ("version", "free"),
    [("5.0.0", True), ("5", True), ("v6.1", True), ("12.0", True), ("4.9.9", False), ("v1", False), ("dev", True)],
)
def test_the_agents_version_decides_the_form_of_commands(version: str, free: bool) -> None:
    assert takes_free_shapes(version) is free

    answer = http_reply(
        heartbeat({"compute-xs": 1}, version=version), central_state(desired_state(target("memory-xs", 2)))
    )

    assert answer.scaling_commands is not None
    if free:
        assert [(each.name, each.shape) for each in answer.scaling_commands] == [
            ("compute-xs", FreeShape(arch="arm64", vcpus=2, mem_gib=3)),
            ("memory-xs", MEMORY),
        ]
    else:
        assert [(each.name, each.shape) for each in answer.scaling_commands] == [
            ("slurmd-compute-xs", "compute-xs"),
            ("slurmd-memory-xs", "memory-xs"),
        ]


def test_old_agents_may_count_by_deployment_or_by_shape() -> None:
    for name in ("slurmd-compute-xs", "compute-xs"):
        answer = http_reply(heartbeat({name: 3}, version="4.0.0"), central_state())
        assert replicas(answer) == {"slurmd-compute-xs": 3}


def test_workers_of_an_unknown_shape_are_kept_and_ask_for_nothing() -> None:
    (command,) = http_reply(heartbeat({"from-elsewhere": 3}), central_state(desired_state())).scaling_commands or ()
    assert command.replicas == 3
    assert command.shape == FreeShape(arch="arm64", vcpus=0, mem_gib=0)


@pytest.mark.parametrize(
    ("gres", "model", "count"), [("gpu:a10g:4", "a10g", 4), ("gpu:2", "", 2), ("gpu", "", 1), ("", "", 0)]
)
def test_gpus_are_requested_by_model_and_count(gres: str, model: str, count: int) -> None:
    wanted = target("gpu-xs", 1).model_copy(update={"worker": WorkerSpec(cpus=4, memory_mib=8192, gres=gres)})

    (command,) = http_reply(heartbeat({}), central_state(desired_state(wanted))).scaling_commands or ()

    arch = "amd64" if count else "arm64"
    assert command.shape == FreeShape(arch=arch, vcpus=4, mem_gib=8, gpu_count=count, gpu_model=model)


def test_a_node_with_a_running_job_is_kept_when_none_is_desired() -> None:
    nodes = ("a.ec2.internal", "b.ec2.internal", "c.ec2.internal")
    fleet = heartbeat({"compute-xs": 3}, nodes)
    wish = desired_state(target("compute-xs", 0, "a", "b"))

    answer = http_reply(fleet, central_state(wish, snapshot("a")))

    assert replicas(answer) == {"compute-xs": 2}, "a runs a job, c is no victim"
    assert set(answer.protected_nodes) >= {"a.ec2.internal", "c.ec2.internal"}
    assert "b.ec2.internal" not in answer.protected_nodes


def test_only_nodes_with_running_jobs_are_protected() -> None:
    answer = http_reply(
        heartbeat({"compute-xs": 2}, ("a", "b")), central_state(desired_state(target("compute-xs", 2)), snapshot("b"))
    )
    assert answer.protected_nodes == ("b",)


CLAIM = AgentNodeClaim(name="c1", lifecycle="spot", zone="a", node_name="n1", billable_from=NOW, launched=True)


@pytest.mark.parametrize(("nodes", "claims"), list(itertools.product([None, (), ("n1",)], [None, (), (CLAIM,)])))
def test_null_stays_null_and_empty_stays_empty(
    nodes: tuple[str, ...] | None, claims: tuple[AgentNodeClaim, ...] | None
) -> None:
    for pods in ({}, {"compute-xs": 0}, {"compute-xs": 1}):
        beat = bus_heartbeat(heartbeat(pods, nodes, claims=claims), central_state(), 9)

        assert beat.node_claims == (
            None if claims is None else tuple(NodeClaim(**{**dict(claim), "lifecycle": "spot"}) for claim in claims)
        )
        assert beat.nodes == (() if nodes == () else None)
        assert beat.workers == (() if nodes == () and not any(pods.values()) else None)
        assert beat.prices is None


def test_unknown_lifecycles_are_left_out() -> None:
    odd = CLAIM.model_copy(update={"lifecycle": "reserved"})
    prices = tuple(
        AgentPrice(instance_type="c7g.large", lifecycle=lifecycle, zone="a", usd_per_hour=0.1)
        for lifecycle in ("spot", "on-demand", "reserved")
    )

    beat = bus_heartbeat(heartbeat({}, claims=(odd,), prices=prices), central_state(), 9)

    assert [claim.lifecycle for claim in beat.node_claims or ()] == [None]
    assert [price.lifecycle for price in beat.prices or ()] == ["spot", "on-demand"]
    assert all(isinstance(price, Price) for price in beat.prices or ())
    assert bus_heartbeat(heartbeat({}, prices=()), central_state(), 9).prices == ()


def test_the_last_applied_version_acknowledges_the_desired_state() -> None:
    desired = desired_state(fence=3, generation=8)

    acknowledged = bus_heartbeat(heartbeat({}, last=version_of(desired)), central_state(desired), 9).applied

    assert acknowledged is not None
    assert (acknowledged.fence, acknowledged.generation) == (3, 8)
    assert bus_heartbeat(heartbeat({}, last=version_of(desired) - 1), central_state(desired), 9).applied is None


def test_our_own_agent_gets_the_desired_state_and_no_commands() -> None:
    request = AgentHeartbeat(cluster_id="main", agent_version="0.1.0", heartbeat=own_heartbeat("w1", "w2"))
    desired = desired_state(target("compute-xs", 0))

    assert bus_heartbeat(request, central_state(desired), 9) is request.heartbeat

    answer = http_reply(request, central_state(desired, snapshot("w2")))
    assert answer.desired == desired
    assert answer.scaling_commands is None
    assert answer.protected_nodes == ("w2",)
    assert set(http_reply(request, central_state(desired)).protected_nodes) == {"w1", "w2"}
    assert http_reply(request, central_state()).desired is None


def test_all_known_nodes_are_protected_while_the_running_jobs_are_unknown() -> None:
    node = NodeState(name="n9", states=("IDLE",), cpus=1, cpus_allocated=0, memory_mib=1, memory_allocated_mib=0)
    queue = snapshot(readable=False).model_copy(update={"nodes": (node,)})
    request = heartbeat({}, None, claims=(CLAIM,))

    assert http_reply(request, central_state(None, queue)).protected_nodes == ("n1", "n9")


@pytest.mark.parametrize(
    "body",
    [
        '{"cluster_id":"main","agent_version":"5.0.0"}',
        '{"cluster_id":"main","agent_version":"5.0.0","capacity_pods":null}',
        '{"cluster_id":"main","agent_version":5,"capacity_pods":{}}',
        '{"cluster_id":"*","agent_version":"5.0.0","capacity_pods":{}}',
        '{"cluster_id":"main","agent_version":"5.0.0","capacity_pods":{"a":1}}',
        '{"cluster_id":"main","agent_version":"5.0.0","capacity_pods":{"a":{"count":"1"}}}',
        '{"cluster_id":"main","agent_version":"5.0.0","capacity_pods":{"a":{"count":-1}}}',
        '{"cluster_id":"main","agent_version":"5.0.0","capacity_pods":{},"k8s_nodes":"none"}',
        '{"cluster_id":"main","agent_version":"5.0.0","capacity_pods":{},"last_applied_version":"7"}',
    ],
)
def test_an_invalid_heartbeat_is_rejected(body: str) -> None:
    with pytest.raises(ValidationError):
        AgentHeartbeat.model_validate_json(body)


def test_unknown_fields_of_a_heartbeat_are_ignored() -> None:
    body = '{"cluster_id":"main","agent_version":"5.0.0","capacity_pods":{"a":{"count":1,"x":2}},"more":[1]}'
    assert AgentHeartbeat.model_validate_json(body).capacity_pods == {"a": CapacityPods(count=1)}


def test_the_model_agent_removes_every_shape_that_is_not_listed() -> None:
    fleet = Fleet(
        [Pod("compute-xs", None), Pod("compute-xs", "a"), Pod("compute-xs", "b")], [], frozenset("b"), frozenset()
    )

    answer = http_reply(heartbeat_of(fleet), central_state(None, snapshot("b")))
    none = replace(fleet, pods=pods_kept(fleet.pods, answer.model_copy(update={"scaling_commands": ()})))

    assert none.pods == []
