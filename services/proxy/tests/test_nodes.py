"""Requests on nodes through the proxy, and node events."""

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm_nodes import (
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
from proxy_world import ProxyWorld, find_node, find_pending, find_running
from slurm_world import SlurmWorld, placeholder_names


def states_of(snapshot: QueueSnapshot, name: str) -> tuple[str, ...]:
    node = find_node(snapshot, name)
    return node.states if node else ()


def is_free(snapshot: QueueSnapshot, name: str) -> bool:
    node = find_node(snapshot, name)
    return node is not None and not node.cpus_allocated and "IDLE" in node.states


async def wait_for_node_events(proxy: ProxyWorld, name: str, count: int) -> list[str]:
    async def published() -> list[str] | None:
        kinds = [event.kind for event in await proxy.events("node.*") if event.subject == name]
        return kinds if len(kinds) >= count else None

    return await until(published, seconds=90, what=f"{count} events of node {name}", every=0.1)


async def test_a_worker_from_registration_to_deletion(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    async with slurm.worker("life", features="memory"):
        await proxy.until_snapshot(lambda snapshot: "IDLE" in states_of(snapshot, "life"))
        page = await proxy.call("nodes", ListNodes(), NodePage)
        (node,) = [node for node in page.nodes if node.name == "life"]

        assert (node.cpus, node.memory_mib, node.features, node.reason) == (4, 8000, ("memory",), "")

        drained = await proxy.call("drain", Drain(node="life", reason="idle for 150 s"), Drained)
        snapshot = await proxy.until_snapshot(
            lambda snapshot: snapshot.taken_at > drained.accepted_at and "DRAIN" in states_of(snapshot, "life")
        )
        state = find_node(snapshot, "life")

        assert state is not None
        assert (state.idle, state.draining, state.reason) == (True, True, "clusterra:idle for 150 s")
        assert state.idle_since is not None

        # Draining again succeeds and changes nothing.
        await proxy.call("drain", Drain(node="life", reason="something else"), Drained)
        await proxy.call("undrain", Undrain(node="life"), Done)
        await proxy.until_snapshot(lambda snapshot: "DRAIN" not in states_of(snapshot, "life"))
        await proxy.call("undrain", Undrain(node="life"), Done)
    await proxy.call("delete-node", DeleteNode(node="life"), Done)
    await proxy.call("delete-node", DeleteNode(node="life"), Done)
    await proxy.until_snapshot(lambda snapshot: states_of(snapshot, "life") == ())
    events = await wait_for_node_events(proxy, "life", 4)

    assert [kind for kind in events if kind != "node.down"] == [
        "node.registered",
        "node.drained",
        "node.undrained",
        "node.removed",
    ]


async def test_another_persons_drain_is_kept(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
    await slurm.cluster.run("scontrol", "update", "nodename=w2", "state=drain", "reason=repair")
    drained = await proxy.call("drain", Drain(node="w2", reason="idle"), Drained)
    snapshot = await proxy.until_snapshot(lambda snapshot: snapshot.taken_at > drained.accepted_at)
    node = find_node(snapshot, "w2")

    assert node is not None
    assert (node.draining, node.reason) == (True, "repair")

    error = await proxy.error_of("undrain", Undrain(node="w2"))
    assert (error.kind, "repair" in error.detail) == ("conflict", True)

    await slurm.cluster.run("scontrol", "update", "nodename=w2", "state=undrain")
    await proxy.until_snapshot(lambda snapshot: "DRAIN" not in states_of(snapshot, "w2"))


async def test_a_busy_node_is_drained_and_not_deleted(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    job_id = (await proxy.submit(alice, "#!/bin/sh\nsleep 2\n", required_nodes=("w2",), constraints="memory")).job_id
    await proxy.until_snapshot(lambda snapshot: find_running(snapshot, job_id) is not None)
    error = await proxy.error_of("delete-node", DeleteNode(node="w2"))

    assert error.kind == "conflict"

    drained = await proxy.call("drain", Drain(node="w2", reason="scale down"), Drained)
    busy = await proxy.until_snapshot(lambda snapshot: snapshot.taken_at > drained.accepted_at)
    node = find_node(busy, "w2")

    assert node is not None
    assert (node.draining, node.idle, node.idle_since) == (True, False, None)
    assert (await proxy.wait_for_end(alice, job_id)).state == "COMPLETED"

    idle = await proxy.until_snapshot(
        lambda snapshot: any(node.name == "w2" and node.idle for node in snapshot.nodes or ())
    )
    assert not any("w2" in job.nodes for job in idle.running or ())

    await proxy.call("undrain", Undrain(node="w2"), Done)


async def is_requeued(slurm: SlurmWorld, job_id: str) -> bool:
    return "Restarts=1" in (await slurm.cluster.run("scontrol", "show", "job", job_id)).stdout


async def test_jobs_of_a_lost_node_run_on_another(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    async with slurm.worker("taken", features="memory") as slurmd:
        script = "#!/bin/sh\n[ $SLURMD_NODENAME = taken ] && sleep 600\ntrue\n"
        job_id = (await proxy.submit(alice, script, constraints="memory", excluded_nodes=("w2",))).job_id
        await proxy.until_snapshot(lambda snapshot: any("taken" in job.nodes for job in snapshot.running or ()))
        await proxy.call("drain", Drain(node="taken", reason="its machine is taken away"), Drained)
        # A living slurmd would register again and bring the node up.
        slurmd.kill()
        await slurmd.wait()
        down = Down(node="taken", reason="its machine is gone")
        await proxy.call("down", down, Done)
        await until(lambda: is_requeued(slurm, job_id), seconds=90, what="the job to be queued again", every=0.1)

        async def down_and_pending() -> QueueSnapshot | None:
            # slurmctld may read an earlier message of slurmd, such as its answer to the job's launch, up to a second
            # later and set the node up again. Like the scaler, set it down again.
            await proxy.call("down", down, Done)
            snapshot = proxy.snapshots[-1]
            pending = find_pending(snapshot, job_id) is not None
            return snapshot if pending and "DOWN" in states_of(snapshot, "taken") else None

        snapshot = await until(down_and_pending, seconds=90, what="the node to be down and its job to wait", every=0.5)
        node = find_node(snapshot, "taken")

        assert node is not None
        assert (node.draining, node.cpus_allocated, node.reason) == (True, 0, "clusterra:its machine is gone")

        shown = (await slurm.cluster.run("scontrol", "show", "job", job_id)).stdout
        assert "Restarts=1" in shown
        assert "Priority=0" not in shown, "the job is held"

        # The node is already down.
        await proxy.call("down", Down(node="taken", reason="something else"), Done)
        async with slurm.worker("spare", features="memory"):
            job = await proxy.wait_for_end(alice, job_id)
            assert (job.state, job.nodes) == ("COMPLETED", ("spare",))
            # The job completes before its epilog does, and no node that still has it can be deleted.
            await proxy.until_snapshot(lambda snapshot: is_free(snapshot, "spare"))
    for name in ("taken", "spare"):
        await proxy.call("delete-node", DeleteNode(node=name), Done)
    await proxy.call("down", Down(node="taken", reason="its machine is gone"), Done)


async def test_missing_nodes_are_not_found(proxy: ProxyWorld) -> None:
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


async def test_placeholders_exist_and_are_hidden(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
    names = await placeholder_names(slurm)
    assert len(names) == 200

    # The proxy treats a placeholder as missing, so it cannot be deleted or drained.
    await proxy.call("delete-node", DeleteNode(node=names[0]), Done)
    assert (await proxy.error_of("drain", Drain(node=names[0], reason="x"))).kind == "not_found"

    page = await proxy.call("nodes", ListNodes(), NodePage)
    snapshot = await proxy.until_snapshot(lambda snapshot: snapshot.nodes is not None)

    for name in (*(node.name for node in page.nodes), *(node.name for node in snapshot.nodes or ())):
        assert not name.startswith(PREFIX)
    assert await placeholder_names(slurm) == names


async def test_diagnosis_of_a_reachable_slurm(proxy: ProxyWorld) -> None:
    diagnosis = await proxy.call("diag", Diagnose(), Diagnosis)
    assert diagnosis.reachable
    assert diagnosis.api_version == "v0.0.44"
    assert diagnosis.slurm_version.startswith("26.")
    assert diagnosis.last_listed_at is not None
    assert diagnosis.partition_found
    assert diagnosis.operator_privileged
    assert diagnosis.problem == ""


async def test_diagnosis_names_missing_rights_of_the_operator(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
    await slurm.give_operator_level("None")
    try:
        diagnosis = await proxy.call("diag", Diagnose(), Diagnosis)
    finally:
        await slurm.give_operator_level("Administrator")

    assert diagnosis.reachable
    assert not diagnosis.operator_privileged


async def test_missing_rights_are_named_in_the_hint(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
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
