"""The scaler process explains jobs and logs its decisions. In shadow mode it does nothing else."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.alternatives import MOST_OF_CHANGE
from clusterra_contracts.bus import subjects
from clusterra_contracts.events import ScaleFact
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.rpc.estimate import Estimate, EstimateJob
from clusterra_contracts.rpc.simulate import SimulatePolicy, Simulation
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_nodes import Drain
from clusterra_contracts.rpc.why import ExplainJob, Explanation
from clusterra_lab.machine.process import Process, start, until
from clusterra_planner_tools.cli import command
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.nats.rpc import RpcFailed, call
from fleet_examples import CATALOGUE, binding, group, node, running, worker
from stand_ins import Neighbours, neighbours
from typer.testing import CliRunner

ADA = Viewer(user=SlurmUser(name="ada", uid=20001, gid=20001))
BOB = Viewer(user=SlurmUser(name="bob", uid=20002, gid=20002))


@asynccontextmanager
async def scaler(environment: dict[str, str], directory: Path) -> AsyncIterator[Process]:
    logs = {"CLUSTERRA_DECISION_LOG_DIR": str(directory / "decisions")}
    argv = [sys.executable, "-m", "clusterra_scaler"]
    process = await start("scaler", argv, log=directory / "scaler.log", env=environment | logs)
    try:
        yield process
    finally:
        await process.stop()


async def bind(client: Client, ref: ClusterRef, version: int = 1, **policy: Any) -> None:
    given = binding(idle_seconds=0.5, max_workers=20, **policy)
    await put_binding(client, ref, given.model_copy(update={"version": version}))


@pytest.fixture
async def cluster(client: Client, ref: ClusterRef) -> AsyncIterator[Neighbours]:
    async with neighbours(client, ref) as cluster:
        yield cluster


async def explanation_of(cluster: Neighbours, job_id: str, viewer: Viewer = ADA) -> Explanation:
    subject = subjects.scaler(cluster.ref, "why")
    return await call(cluster.client, subject, ExplainJob(viewer=viewer, job_id=job_id), Explanation)


async def error_kind(cluster: Neighbours, job_id: str, viewer: Viewer = ADA) -> str:
    with pytest.raises(RpcFailed) as failed:
        await explanation_of(cluster, job_id, viewer)
    assert failed.value.error.hint
    return failed.value.error.kind


async def until_explained(cluster: Neighbours, job_id: str, text: str) -> Explanation:
    async def found() -> Explanation | None:
        try:
            answer = await explanation_of(cluster, job_id)
        except RpcFailed:
            return None
        return answer if text in answer.text else None

    return await until(found, seconds=90, what=f"an explanation with {text!r}", every=0.05)


def logged_events(directory: Path, event: str) -> list[dict[str, Any]]:
    lines = (directory / "scaler.log").read_text().splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    return [record for record in records if record.get("event") == event]


async def test_a_job_is_explained_from_its_submit_to_its_end(
    environment: dict[str, str], cluster: Neighbours, client: Client, tmp_path: Path
) -> None:
    await bind(client, cluster.ref)
    assert await error_kind(cluster, "1") == "unavailable"
    async with scaler(environment, tmp_path):
        cluster.pending = (group("1", cpus=2), group("2", reason="JobHeldUser", held=True))
        await cluster.publish_snapshot()
        await cluster.publish_heartbeat()
        ordered = await until_explained(cluster, "1", "has been ordered but has not started yet")
        assert (ordered.state, ordered.cause, ordered.reason) == ("pending", "nodes", "Resources")
        assert ordered.usd_per_hour == pytest.approx(0.08)
        assert (ordered.alternatives[0].shape, ordered.alternatives[0].verdict) == ("compute-xs", "chosen")
        assert len({each.shape for each in ordered.alternatives}) == len(ordered.alternatives) == len(CATALOGUE.shapes)
        (bought,) = ordered.bought
        assert (bought.shape, bought.workers, bought.reason) == ("compute-xs", 1, "1 more for pending job 1")
        state = await cluster.last_desired()
        assert state is not None
        assert (bought.generation, bought.decided_at) == (state.generation, state.decided_at)
        event = await until(cluster.last_event, seconds=90, what="the event of the purchase", every=0.05)
        assert isinstance(event.data, ScaleFact)
        assert event.data.changes[0].compared_jobs == ("1",)
        assert event.data.changes[0].alternatives == ordered.alternatives[:MOST_OF_CHANGE]
        assert "held by its owner" in (await explanation_of(cluster, "2")).text
        assert await error_kind(cluster, "1", BOB) == "not_found"
        assert await error_kind(cluster, "3") == "not_found"
        assert (await explanation_of(cluster, "1", BOB.model_copy(update={"admin": True}))).bought == ordered.bought

        booting = worker("compute-xs-a", "booting").model_copy(update={"started_at": now()})
        await cluster.publish_heartbeat(booting)
        await until_explained(cluster, "1", "compute-xs-a, which has been booting")
        cluster.pending = ()
        cluster.running = (running("1", "compute-xs-a", cpus=2),)
        cluster.nodes = {"compute-xs-a": node("compute-xs-a", used=2)}
        await cluster.publish_heartbeat(booting.model_copy(update={"phase": "running"}))
        await cluster.publish_snapshot()
        runs = await until_explained(cluster, "1", "It has been running on compute-xs-a")
        assert (runs.state, runs.bought) == ("running", ordered.bought)
        assert runs.usd_per_hour == pytest.approx(0.08)
        assert (runs.alternatives[0].shape, runs.alternatives[0].verdict) == ("compute-xs", "chosen")
        assert await error_kind(cluster, "2") == "not_found"
    assert await error_kind(cluster, "1") == "unavailable"

    file = tmp_path / "decisions" / f"{cluster.ref.key}.jsonl"
    done = CliRunner().invoke(command, ["replay", str(file), "--json"])
    summary = json.loads(done.stdout)
    assert "alternatives" not in file.read_text()
    assert (done.exit_code, summary["different"], summary["bad"]) == (0, 0, [])
    assert summary["decisions"] >= 1
    assert "jwt" not in file.read_text().replace('"jwt_key":"file:/dev/null"', "")


async def test_an_estimate_is_made_between_decisions_and_changes_nothing(
    environment: dict[str, str], cluster: Neighbours, client: Client, tmp_path: Path
) -> None:
    await bind(client, cluster.ref)
    subject = subjects.scaler(cluster.ref, "estimate")
    asked = EstimateJob(job=group("9", cpus=2, first_submitted_at=now(), time_limit_seconds=3600))
    async with scaler(environment, tmp_path):
        await cluster.publish_heartbeat()

        async def answered() -> Estimate | None:
            await cluster.publish_snapshot()
            try:
                return await call(client, subject, asked, Estimate)
            except RpcFailed:
                return None

        found = await until(answered, seconds=90, what="an estimate", every=0.05)
        assert found.wait == "boot"
        assert found.usd_per_hour == pytest.approx(0.08)
        assert [(each.kind, each.shape, each.count) for each in found.workers] == [("new", "compute-xs", 1)]
        assert (found.alternatives[0].shape, found.alternatives[0].verdict) == ("compute-xs", "chosen")
        assert await error_kind(cluster, "9") == "not_found"
        warm = binding(idle_seconds=0.5, max_workers=20, warm={"memory-xs": 2}).policy
        simulated = await call(
            client, subjects.scaler(cluster.ref, "simulate"), SimulatePolicy(policy=warm), Simulation
        )
        assert simulated.present.shapes == ()
        assert [(each.shape, each.new) for each in simulated.changed.shapes] == [("memory-xs", 2)]
        state = await cluster.last_desired()
        assert state is None or not any(target.replicas for target in state.targets or ())


async def test_another_policy_is_tried_on_the_queue_of_an_earlier_decision(
    environment: dict[str, str], cluster: Neighbours, client: Client, tmp_path: Path
) -> None:
    await bind(client, cluster.ref)
    subject = subjects.scaler(cluster.ref, "simulate")
    policy = binding(idle_seconds=0.5, max_workers=20, most={"compute-xs": 0}, name="packing").policy
    asked = SimulatePolicy(policy=policy, fields=("most", "name"))

    async def simulated(generation: int | None) -> Simulation:
        return await call(client, subject, asked.model_copy(update={"generation": generation}), Simulation)

    async with scaler(environment, tmp_path):
        cluster.pending = (group("1", cpus=2),)
        await cluster.publish_snapshot()
        await cluster.publish_heartbeat()
        ordered = await until_explained(cluster, "1", "has been ordered but has not started yet")
        (bought,) = ordered.bought

        async def withdrawn() -> Simulation | None:
            cluster.pending = ()
            await cluster.publish_snapshot()
            found = await simulated(None)
            return found if not found.present.shapes else None

        present = await until(withdrawn, seconds=90, what="a decision without the job", every=0.05)

        async def logged() -> Simulation | None:
            try:
                return await simulated(bought.generation)
            except RpcFailed:
                return None

        then = await until(logged, seconds=90, what="the decision in the log", every=0.05)
        with pytest.raises(RpcFailed) as unknown:
            await simulated(10_000)

    assert (present.generation, then.generation) == (None, bought.generation)
    assert then.snapshot_generation < present.snapshot_generation
    assert [(each.shape, each.new) for each in then.present.shapes] == [("compute-xs", 1)]
    assert [each.new for each in then.changed.shapes] == [1]
    assert then.changed.shapes[0].shape != "compute-xs"
    assert then.as_of <= bought.decided_at < present.as_of
    assert (unknown.value.error.kind, bool(unknown.value.error.hint)) == ("not_found", True)


async def test_shadow_mode_decides_and_explains_but_does_nothing(
    environment: dict[str, str], cluster: Neighbours, client: Client, tmp_path: Path
) -> None:
    await bind(client, cluster.ref, mode="shadow")
    async with scaler(environment, tmp_path):
        idle = node("memory-xs-a")
        cluster.nodes = {idle.name: idle}
        cluster.pending = (group("1", cpus=4),)
        await cluster.publish_snapshot()
        await cluster.publish_heartbeat(worker(idle.name))
        shadowed = await until_explained(cluster, "1", "would be ordered")
        assert shadowed.shadow
        assert "shadow mode" in shadowed.text
        assert shadowed.bought == ()

        def drain_decided() -> bool:
            return any(
                f"Drain {idle.name}" in each["requests"] for each in logged_events(tmp_path, "slurm_requests_decided")
            )

        await until(drain_decided, seconds=90, what="the decision to drain", every=0.05)
        # Each decision starts from the record again, and is logged once.
        decided = logged_events(tmp_path, "scale_decided")
        for _ in range(3):
            await cluster.publish_snapshot()
            before = await explanation_of(cluster, "1")

            async def decided_again(generation: int = before.snapshot_generation) -> bool:
                await cluster.publish_snapshot()
                return (await explanation_of(cluster, "1")).snapshot_generation > generation

            await until(decided_again, seconds=90, what="another decision", every=0.05)
        decided = logged_events(tmp_path, "scale_decided")
        assert {each["shape"] for each in decided} == {"compute-small", "memory-xs"} & {
            each["shape"] for each in decided
        }
        assert all(each["shadow"] for each in decided)
        assert len(decided) == len({json.dumps(each["reason"]) for each in decided})
        assert await cluster.last_desired() is None
        assert await cluster.last_event() is None
        assert cluster.requests == []

        await bind(client, cluster.ref, version=2)

        async def bought() -> bool:
            state = await cluster.last_desired()
            return state is not None and any(
                (target.shape, target.replicas) == ("compute-small", 1) for target in state.targets or ()
            )

        await until(bought, seconds=90, what="the worker that was not bought in shadow mode", every=0.05)
        await until(
            lambda: cluster.requests, seconds=90, what="the drain that was not requested in shadow mode", every=0.05
        )
        assert [request.node for request in cluster.requests if isinstance(request, Drain)][:1] == [idle.name]
        await until_explained(cluster, "1", "has been ordered but has not started yet")

        # Back in shadow mode the desired state stays, and nothing more is done.
        await bind(client, cluster.ref, version=3, mode="shadow")
        await until_explained(cluster, "1", "shadow mode")
        before_shadow = await cluster.last_desired()
        cluster.pending = (group("1", cpus=4), group("2", "3", cpus=32))
        await cluster.publish_snapshot()
        more = await until_explained(cluster, "2", "would be ordered")
        assert more.shadow
        assert await cluster.last_desired() == before_shadow

    file = tmp_path / "decisions" / f"{cluster.ref.key}.jsonl"
    assert CliRunner().invoke(command, ["replay", str(file)]).exit_code == 0
    assert [json.loads(line)["shadow"] for line in file.read_text().splitlines()].count(False) > 0


async def test_the_last_explanation_is_given_while_the_queue_is_unreadable(
    environment: dict[str, str], cluster: Neighbours, client: Client, tmp_path: Path
) -> None:
    await bind(client, cluster.ref)
    async with scaler(environment, tmp_path):
        cluster.pending = (group("1"),)
        await cluster.publish_snapshot()
        before = await until_explained(cluster, "1", "ordered")

        await cluster.publish_snapshot(pending=False)
        since = await until_explained(cluster, "1", "The queue has been unreadable since")

        assert since.as_of == before.as_of
        await cluster.publish_snapshot()
        await until_explained(cluster, "1", "not started yet")
