"""One cluster over HTTP: its shapes and prices, and the summary of its queue, which names nobody's jobs."""

from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import now
from clusterra_contracts.queue import NodeState, PendingJobs, QueueCounts, QueueSnapshot, RunningJob
from clusterra_contracts.registry import ScalingPolicy
from clusterra_gateway.clusters.handlers import PolicyView
from clusterra_gateway.clusters.queue_summary import summary_of
from clusterra_runtime.nats import bus
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st

CLUSTER = "/v1/clusters/main"
NODE = NodeState(name="n", states=("IDLE",), cpus=4, cpus_allocated=1, memory_mib=8, memory_allocated_mib=0)


def pending(*job_ids: str) -> PendingJobs:
    return PendingJobs(
        job_ids=job_ids, count=1, cpus=1, partition="main", uid=7, reason="Resources", first_submitted_at=now()
    )


def running(job_id: str) -> RunningJob:
    return RunningJob(job_id=job_id, uid=7, user="grace", nodes=("n",), cpus=1, started_at=now())


def snapshot(generation: int = 1, taken_at: datetime | None = None, **lists: Any) -> QueueSnapshot:
    told: dict[str, Any] = {"pending": (), "running": (), "nodes": (), **lists}
    return QueueSnapshot(generation=generation, taken_at=taken_at or now(), **told)


async def read(world: World) -> Any:
    browser = await world.login("ada@acme.example")
    async with browser.get(CLUSTER) as answer:
        assert answer.status == 200, await answer.text()
        return orjson.loads(await answer.read())


async def publish(world: World, queue: QueueSnapshot) -> None:
    ref = world.acme.ref
    await bus.publish_durable(
        world.client, subjects.job_pending(ref), queue, message_id=f"{ref.key}:{queue.generation}"
    )


@given(
    groups=st.lists(st.lists(st.integers(1, 99).map(str), max_size=3), max_size=3),
    states=st.lists(
        st.sampled_from([("IDLE",), ("MIXED", "DRAIN"), ("ALLOCATED",), ("DOWN", "NOT_RESPONDING"), ()]), max_size=6
    ),
)
def test_the_summary_counts_every_job_and_node_once(groups: list[list[str]], states: list[tuple[str, ...]]) -> None:
    nodes = tuple(NODE.model_copy(update={"states": each}) for each in states)
    queue = snapshot(pending=tuple(pending(*ids) for ids in groups), running=(running("1"),), nodes=nodes)

    summary = summary_of(queue, now())

    assert (summary.pending, summary.running, summary.nodes) == (sum(map(len, groups)), 1, len(nodes))
    assert summary.node_summary is not None
    assert sum(summary.node_summary.by_state.values()) == sum(bool(each) for each in states)
    assert summary.node_summary.draining == states.count(("MIXED", "DRAIN"))
    assert (summary.node_summary.cpus, summary.node_summary.cpus_allocated) == (4 * len(nodes), len(nodes))


def test_lists_that_could_not_be_read_are_null_and_not_zero() -> None:
    summary = summary_of(snapshot(pending=None, running=None, nodes=None, unreadable_jobs=3), now())

    assert (summary.pending, summary.running, summary.nodes, summary.node_summary) == (None, None, None, None)
    assert summary.unreadable == 3


def test_a_large_queue_is_counted_by_its_head() -> None:
    counts = QueueCounts(pending=50_000, nodes=5_000)

    summary = summary_of(snapshot(pending=None, running=None, nodes=None, counts=counts), now())

    assert (summary.pending, summary.running, summary.nodes) == (50_000, None, 5_000)


@pytest.mark.parametrize(("seconds", "stale"), [(10, False), (60, True)])
def test_an_old_summary_says_so(seconds: int, stale: bool) -> None:
    assert summary_of(snapshot(taken_at=now() - timedelta(seconds=seconds)), now()).stale is stale


async def test_a_cluster_has_no_queue_before_its_first_snapshot(world: World) -> None:
    chief = await world.login("chief@rival.example")

    async with chief.get("/v1/clusters/secret") as answer:
        assert (answer.status, (await answer.json())["queue"]) == (200, None)


async def test_a_cluster_has_its_shapes_with_prices_and_nothing_secret(world: World) -> None:
    told = await read(world)

    assert (told["id"], told["state"]) == ("main", "active")
    assert [(shape["name"], shape["usd_per_hour"], shape["most"]) for shape in told["shapes"]] == [
        ("compute-xs", "0.1", None)
    ]
    assert told["policy"] == {"name": "packing", "idle_seconds": 150.0, "usd_per_hour": None}
    assert "jwt" not in str(told)
    assert "127.0.0.1" not in str(told)


def test_a_policy_tells_its_limit_exactly() -> None:
    policy = PolicyView.of(ScalingPolicy(name="family", idle_seconds=5.0, usd_per_hour=0.05))

    assert (policy.name, policy.idle_seconds, str(policy.usd_per_hour)) == ("family", 5.0, "0.05")


async def test_the_queue_is_that_of_the_newest_snapshot(world: World) -> None:
    for generation, jobs in ((1, ("1",)), (2, ("1", "2", "3"))):
        await publish(world, snapshot(generation, pending=(pending(*jobs),), running=(running("9"),), nodes=(NODE,)))
        told = (await read(world))["queue"]

        assert (told["pending"], told["running"], told["nodes"], told["stale"]) == (len(jobs), 1, 1, False)

    assert "grace" not in str(told)


async def test_a_snapshot_that_is_unreadable_leaves_the_rest(world: World) -> None:
    await bus.store(world.client, subjects.job_pending(world.acme.ref), b"{", {})

    assert (await read(world))["queue"] is None


async def test_of_another_tenant_there_is_no_such_cluster(world: World) -> None:
    chief = await world.login("chief@rival.example")

    async with chief.get(CLUSTER) as answer:
        assert answer.status == 404
