"""A real node on a real control plane: running pods, and cleanup."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from clusterra_lab.kube.image import write_image
from clusterra_lab.kube.kubernetes import ControlPlane, control_plane
from clusterra_lab.kube.node import PAUSE_IMAGE, NodeNotPossible, RealNode, real_node, remove_node_leftovers
from clusterra_lab.kube.programs.binaries import BINARIES, can_have_binaries, ensure_node_binaries
from clusterra_lab.machine.process import ProcessDied, until

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(
        not can_have_binaries(BINARIES),
        reason="the Kubernetes programs are not in KUBEBUILDER_ASSETS, and there is no 'go' to build them",
    ),
]

OWN_IMAGE = "lab.clusterra.dev/own:1"

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector: {kubernetes.io/hostname: NODE}
      hostNetwork: HOST_NETWORK
      containers:
      - name: worker
        image: IMAGE
        imagePullPolicy: Never
        resources: {requests: {cpu: 10m}, limits: {memory: 64Mi}}
"""

HOLD = """
import asyncio, pathlib, sys
from clusterra_lab.kube.node import real_node
from clusterra_lab.kube.kubernetes import control_plane
async def main():
    async with control_plane(pathlib.Path(sys.argv[1])) as plane, real_node(plane) as node:
        await plane.kubectl("run", "worker", "--image=lab.clusterra.dev/pause:1", "--image-pull-policy=Never")
        await plane.kubectl("wait", "--for=condition=Ready", "pod/worker", "--timeout=30s")
        print(node.name, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture(scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    async with control_plane(tmp_path_factory.mktemp("kubernetes")) as plane:
        yield plane


@pytest.fixture(scope="module")
async def node(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealNode]:
    image = tmp_path_factory.mktemp("image") / "own.tar"
    try:
        programs = await ensure_node_binaries()
        write_image(image, OWN_IMAGE, {"/bin/own": programs / "pause"}, ["/bin/own"])
        async with real_node(plane, images=[image], labels={"shape": "little"}) as node:
            yield node
    except NodeNotPossible as problem:
        pytest.skip(str(problem))


async def deploy(plane: ControlPlane, node: RealNode, name: str, *, image: str, host_network: bool) -> None:
    filled = {"NAME": name, "NODE": node.name, "IMAGE": image, "HOST_NETWORK": str(host_network).lower()}
    manifest = DEPLOYMENT
    for field, value in filled.items():
        manifest = manifest.replace(field, value)
    await plane.kubectl("create", "--filename=-", input=manifest)
    await plane.kubectl("rollout", "status", f"deployment/{name}", "--timeout=30s")


def running(program: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE and (process.info["cmdline"] or [""])[0] == program
    ]


async def test_a_pod_runs_as_a_process_in_its_own_network_and_ends(plane: ControlPlane, node: RealNode) -> None:
    await deploy(plane, node, "worker", image=OWN_IMAGE, host_network=False)
    (process,) = running("/bin/own")

    address = await plane.kubectl("get", "pods", "--selector=app=worker", "--output=jsonpath={.items[0].status.podIP}")

    assert address.startswith("10.252.")
    assert Path(f"/proc/{process.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()

    await plane.kubectl("scale", "deployment/worker", "--replicas=0")
    await plane.kubectl("wait", "--for=delete", "pod", "--selector=app=worker", "--timeout=30s")

    assert running("/bin/own") == []


async def test_a_pod_on_the_host_network_has_the_nodes_address(plane: ControlPlane, node: RealNode) -> None:
    await deploy(plane, node, "host", image=OWN_IMAGE, host_network=True)
    (process,) = running("/bin/own")

    assert Path(f"/proc/{process.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()

    (pod,) = json.loads(await plane.kubectl("get", "pods", "--selector=app=host", "--output=json"))["items"]

    assert pod["status"]["podIP"] == pod["status"]["hostIP"] == node.address
    assert await plane.kubectl("logs", pod["metadata"]["name"]) == ""

    await plane.kubectl("delete", "deployment", "host")
    await until(lambda: not running("/bin/own"), seconds=90, what="the end of the pod")


async def test_a_node_has_its_labels_and_private_mounts(plane: ControlPlane, node: RealNode) -> None:
    (listed,) = json.loads(await plane.kubectl("get", "nodes", "--selector=shape=little", "--output=json"))["items"]
    assert listed["metadata"]["name"] == node.name
    assert str(node.directory) not in Path("/proc/self/mountinfo").read_text()


async def test_two_nodes_run_side_by_side_and_change_no_setting_of_the_machine(
    plane: ControlPlane, node: RealNode
) -> None:
    before = machine()
    async with real_node(plane) as second:
        assert (second.name, second.address) != (node.name, node.address)
        await deploy(plane, second, "second", image=PAUSE_IMAGE, host_network=False)
        number = second.name.removeprefix("node-")
        assert left_of(number)
        assert machine() == before

    assert left_of(number) == []

    await plane.kubectl("delete", "deployment", "second")

    assert await plane.kubectl("get", "nodes", "--output=name") == f"node/{node.name}\n"


async def test_a_killed_owner_leaves_no_process_and_its_resources_can_be_removed(
    node: RealNode, tmp_path: Path
) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(tmp_path / "plane"), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert holder.stdout
        name = (await asyncio.wait_for(holder.stdout.readline(), 60)).decode().strip()
        assert name.startswith("node-")
    finally:
        holder.send_signal(signal.SIGKILL)
        await holder.wait()
    await until(lambda: not mentioning(tmp_path), seconds=90, what="the end of all processes")

    number = name.removeprefix("node-")

    assert left_of(number)
    assert f"cgroup clusterra-node-{number}" in await remove_node_leftovers()
    assert left_of(number) == []
    assert left_of(node.name.removeprefix("node-"))


async def test_only_root_can_run_a_node(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NodeNotPossible, match="run this as root"):
        async with real_node(plane):
            pass


async def test_an_invalid_image_is_reported(plane: ControlPlane, node: RealNode, tmp_path: Path) -> None:
    (tmp_path / "none.tar").write_text("none")
    with pytest.raises(ProcessDied, match=r"none\.tar cannot be imported"):
        async with real_node(plane, images=[tmp_path / "none.tar"]):
            pass


def mentioning(directory: Path) -> list[str]:
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE and str(directory) in " ".join(process.info["cmdline"] or [])
    ]


def machine() -> dict[str, object]:
    """The settings and folders that kubelet and containerd would change if they owned the machine."""
    settings = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom")
    folders = ("/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/etc/cni")
    found: dict[str, object] = {name: Path("/proc/sys", name).read_text() for name in settings}
    found |= {name: sorted(Path(name).iterdir()) for name in folders if Path(name).exists()}
    return found


def left_of(number: str) -> list[str]:
    """The resources of the machine that a node with this number holds."""
    addresses = {address.address for address in psutil.net_if_addrs().get("lo", [])}
    places = [*Path("/sys/fs/cgroup").glob(f"**/clusterra-node-{number}")]
    if (bridge := Path(f"/sys/class/net/clusterra{number}")).exists():
        places.append(bridge)
    return [*map(str, places), *(addresses & {f"10.251.0.{number}"})]
