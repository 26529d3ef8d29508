"""Nodes through the proxy: what the scaler does to them, and what is told of them."""

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm import (
    DeleteNode,
    Diagnose,
    Diagnosis,
    Down,
    Drain,
    Drained,
    ListNodes,
    NodePage,
    SetExtra,
    Undrain,
)
from clusterra_lab.machine.process import until
from clusterra_proxy.admission.placeholders import PREFIX
from proxy_world import ProxyWorld
from slurm_world import SlurmWorld, placeholder_names


def node_states(snapshot: QueueSnapshot, name: str) -> tuple[str, ...]:
    return next((node.states for node in snapshot.nodes or () if node.name == name), ())


async def wait_for_node_events(proxy: ProxyWorld, name: str, count: int) -> list[str]:
    async def events() -> list[str] | None:
        kinds = [event.kind for event in await proxy.events("node.*") if event.subject == name]
        return kinds if len(kinds) >= count else None

    return await until(events, seconds=30, what=f"{count} events of node {name}", every=0.1)


async def test_a_worker_from_its_start_to_its_end(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    async with slurm.worker("life", features="memory"):
        await proxy.until_snapshot(lambda snapshot: "IDLE" in node_states(snapshot, "life"))
        page = await proxy.call("nodes", ListNodes(), NodePage)
        (node,) = [node for node in page.nodes if node.name == "life"]
        assert (node.cpus, node.memory_mib, node.features, node.reason) == (4, 8000, ("memory",), "")

        drained = await proxy.call("drain", Drain(node="life", reason="idle for 150 s"), Drained)
        snapshot = await proxy.until_snapshot(
            lambda snapshot: snapshot.taken_at > drained.accepted_at and "DRAIN" in node_states(snapshot, "life")
        )
        (state,) = [state for state in snapshot.nodes or () if state.name == "life"]
        assert (state.idle, state.draining, state.reason) == (True, True, "clusterra:idle for 150 s")
        assert state.idle_since is not None

        # Draining again changes nothing and is accepted.
        await proxy.call("drain", Drain(node="life", reason="something else"), Drained)
        await proxy.call("undrain", Undrain(node="life"), Done)
        await proxy.until_snapshot(lambda snapshot: "DRAIN" not in node_states(snapshot, "life"))
        await proxy.call("undrain", Undrain(node="life"), Done)
    await proxy.call("delete-node", DeleteNode(node="life"), Done)
    await proxy.call("delete-node", DeleteNode(node="life"), Done)
    await proxy.until_snapshot(lambda snapshot: node_states(snapshot, "life") == ())
    events = await wait_for_node_events(proxy, "life", 4)
    assert [kind for kind in events if kind != "node.down"] == [
        "node.registered",
        "node.drained",
        "node.undrained",
        "node.removed",
    ]


async def test_a_drain_of_somebody_else_is_his(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
    await slurm.cluster.run("scontrol", "update", "nodename=w2", "state=drain", "reason=repair")
    drained = await proxy.call("drain", Drain(node="w2", reason="idle"), Drained)
    snapshot = await proxy.until_snapshot(lambda snapshot: snapshot.taken_at > drained.accepted_at)
    (node,) = [node for node in snapshot.nodes or () if node.name == "w2"]
    assert (node.draining, node.reason) == (True, "repair")
    error = await proxy.error_of("undrain", Undrain(node="w2"))
    assert (error.kind, "repair" in error.detail) == ("conflict", True)
    await slurm.cluster.run("scontrol", "update", "nodename=w2", "state=undrain")
    await proxy.until_snapshot(lambda snapshot: "DRAIN" not in node_states(snapshot, "w2"))


async def test_a_node_at_work_is_drained_and_not_deleted(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    job_id = (await proxy.submit(alice, "#!/bin/sh\nsleep 2\n", required_nodes=("w2",), constraints="memory")).job_id
    await proxy.until_snapshot(lambda snapshot: any(job.job_id == job_id for job in snapshot.running or ()))
    error = await proxy.error_of("delete-node", DeleteNode(node="w2"))
    assert error.kind == "conflict"
    drained = await proxy.call("drain", Drain(node="w2", reason="scale down"), Drained)
    at_work = await proxy.until_snapshot(lambda snapshot: snapshot.taken_at > drained.accepted_at)
    (node,) = [node for node in at_work.nodes or () if node.name == "w2"]
    assert (node.draining, node.idle, node.idle_since) == (True, False, None)
    assert (await proxy.wait_for_end(alice, job_id)).state == "COMPLETED"
    idle = await proxy.until_snapshot(
        lambda snapshot: any(node.name == "w2" and node.idle for node in snapshot.nodes or ())
    )
    assert not any("w2" in job.nodes for job in idle.running or ())
    await proxy.call("undrain", Undrain(node="w2"), Done)


async def requeued(slurm: SlurmWorld, job_id: str) -> bool:
    return "Restarts=1" in (await slurm.cluster.run("scontrol", "show", "job", job_id)).stdout


async def test_jobs_of_a_node_that_is_gone_run_on_another(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    async with slurm.worker("taken", features="memory") as slurmd:
        script = "#!/bin/sh\n[ $SLURMD_NODENAME = taken ] && sleep 600\ntrue\n"
        job_id = (await proxy.submit(alice, script, constraints="memory", excluded_nodes=("w2",))).job_id
        await proxy.until_snapshot(lambda snapshot: any("taken" in job.nodes for job in snapshot.running or ()))
        await proxy.call("drain", Drain(node="taken", reason="its machine is taken away"), Drained)
        # One that lived would register again, and the node were up.
        slurmd.kill()
        await slurmd.wait()
        gone = Down(node="taken", reason="its machine is gone")
        await proxy.call("down", gone, Done)
        await until(lambda: requeued(slurm, job_id), seconds=30, what="the job to be queued again", every=0.1)

        async def down_and_pending() -> QueueSnapshot | None:
            # What slurmd answered before, as to the job's launch, is read up to a second later and brings its node up
            # again. Whoever sees that says once more, as the scaler does, that the node is down.
            await proxy.call("down", gone, Done)
            snapshot = proxy.snapshots[-1]
            pending = any(job_id in group.job_ids for group in snapshot.pending or ())
            return snapshot if pending and "DOWN" in node_states(snapshot, "taken") else None

        down = await until(down_and_pending, seconds=30, what="the node to be down and its job to wait", every=0.5)
        (node,) = [node for node in down.nodes or () if node.name == "taken"]
        assert (node.draining, node.cpus_allocated, node.reason) == (True, 0, "clusterra:its machine is gone")
        shown = (await slurm.cluster.run("scontrol", "show", "job", job_id)).stdout
        assert "Restarts=1" in shown
        assert "Priority=0" not in shown, "it is held"
        # Down already.
        await proxy.call("down", Down(node="taken", reason="something else"), Done)
        async with slurm.worker("spare", features="memory"):
            wait_for_end = await proxy.wait_for_end(alice, job_id)
            assert (wait_for_end.state, wait_for_end.nodes) == ("COMPLETED", ("spare",))
    for name in ("taken", "spare"):
        await proxy.call("delete-node", DeleteNode(node=name), Done)
    await proxy.call("down", Down(node="taken", reason="its machine is gone"), Done)


async def test_nodes_that_are_not_there(proxy: ProxyWorld) -> None:
    for operation, request in (
        ("drain", Drain(node="nowhere", reason="x")),
        ("undrain", Undrain(node="nowhere")),
        ("set-extra", SetExtra(node="nowhere", extra="{}")),
    ):
        assert (await proxy.error_of(operation, request)).kind == "not_found"  # type: ignore[arg-type]
    for name in ("w[1-2]", "../jobs", "w1,w2"):
        assert (await proxy.error_of("drain", Drain(node=name, reason="x"))).kind == "invalid"
        assert (await proxy.error_of("down", Down(node=name, reason="x"))).kind == "invalid"
        assert (await proxy.error_of("delete-node", DeleteNode(node=name))).kind == "invalid"
        assert (await proxy.error_of("set-extra", SetExtra(node=name, extra="{}"))).kind == "invalid"


async def test_placeholders_are_there_and_nobody_sees_them(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
    names = await placeholder_names(slurm)
    assert len(names) == 200
    # To us it does not exist, so there is nothing to delete or drain.
    await proxy.call("delete-node", DeleteNode(node=names[0]), Done)
    assert (await proxy.error_of("drain", Drain(node=names[0], reason="x"))).kind == "not_found"
    page = await proxy.call("nodes", ListNodes(), NodePage)
    snapshot = await proxy.until_snapshot(lambda snapshot: snapshot.nodes is not None)
    for name in (*(node.name for node in page.nodes), *(node.name for node in snapshot.nodes or ())):
        assert not name.startswith(PREFIX)
    assert await placeholder_names(slurm) == names


async def test_how_it_is(proxy: ProxyWorld) -> None:
    diagnosis = await proxy.call("diag", Diagnose(), Diagnosis)
    assert diagnosis.reachable
    assert diagnosis.api_version == "v0.0.44"
    assert diagnosis.slurm_version.startswith("26.")
    assert diagnosis.last_listed_at is not None


async def test_without_the_rights_it_says_which_ones(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
    await slurm.give_operator_level("operator")
    try:
        errors = [
            await proxy.error_of("drain", Drain(node="w2", reason="x")),
            await proxy.error_of("down", Down(node="w2", reason="x")),
            await proxy.error_of("set-extra", SetExtra(node="w2", extra="{}")),
        ]
    finally:
        await slurm.give_operator_level("administrator")
    for error in errors:
        assert error.kind == "forbidden"
        assert "Administrator" in error.hint
        assert slurm.operator.name in error.hint
