"""A real Kubernetes node on this machine: kubelet, containerd and runc run the pods.

They run in private pid and mount namespaces, and end with the process that opened the node, even when that is killed.
Pods share the node's network only with `hostNetwork`. This is the machine's network, without addresses and names of
Services, unless the node's number is one with a network of its own (`node_network`).
"""

import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import psutil

from clusterra_lab.kube.control_plane import ControlPlane
from clusterra_lab.kube.image import write_image
from clusterra_lab.kube.node_config import INSIDE, PAUSE_IMAGE, write_config
from clusterra_lab.kube.node_network import NETWORK_PROGRAMS, connect, dns_rights
from clusterra_lab.kube.node_number import NodeNotPossible, NodeNumber, remove_node_leftovers, reserved_node_number
from clusterra_lab.kube.node_removal import remove_nodes
from clusterra_lab.kube.programs.binaries import ensure_node_binaries
from clusterra_lab.machine.debian_root import PRIVATE
from clusterra_lab.machine.process import Process, run, start, until
from clusterra_lab.machine.progress import Progress, silent

__all__ = ["PAUSE_IMAGE", "NodeNotPossible", "RealNode", "real_node", "remove_node_leftovers"]

_PROGRAMS = ("bash", "ip", "mount", "unshare")
_READY_SECONDS = 180.0
_END_SECONDS = 20.0

_CHECK = """\
set -eu
mount -t proc proc /proc
mkdir lower upper work merged
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
umount merged
"$1" --version
"""
"""Script that fails on a machine that cannot run containers."""

NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class RealNode:
    """A node that is Ready."""

    name: str
    """Name of the Node, and value of its label kubernetes.io/hostname."""
    address: str
    """Address of kubelet."""
    machine_address: str
    """The address of this machine as pods reach it."""
    directory: Path
    """Folder with kubelet.log and containerd.log."""


@asynccontextmanager
async def real_node(
    plane: ControlPlane,
    *,
    number: NodeNumber | None = None,
    images: Sequence[Path] = (),
    labels: Mapping[str, str] = NO_LABELS,
    progress: Progress = silent,
) -> AsyncIterator[RealNode]:
    """Add a Ready node until the block ends. `images` are tar files of `docker save` or of `write_image`.

    Pods can only use these images and PAUSE_IMAGE, with `imagePullPolicy: Never`. `number` is one that the caller has
    reserved. With a network of its own the node needs a control plane with the number's `site`. By
    default the node reserves a number without such a network. Several nodes can run at the same time. The leftovers of
    a killed owner are removed by the next node or by `remove_node_leftovers`. The API server must be running when the
    block ends. Raises NodeNotPossible, BinariesNotBuilt, KubectlFailed, ProcessDied, TimeoutError.
    """
    own_network = number is not None and number.own_network
    _check_user(NETWORK_PROGRAMS if own_network else ())
    programs = await ensure_node_binaries(progress, network=own_network)
    async with AsyncExitStack() as reserved:
        if number is None:
            number = await reserved.enter_async_context(reserved_node_number())
        name = f"node-{number.number}"
        directory = plane.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        await _check(directory, programs)
        progress(f"starting a Kubernetes node with {len(images)} images")
        write_config(directory, programs, number, name=name, url=plane.url, authority=plane.authority)
        write_image(directory / "pause.tar", PAUSE_IMAGE, {"/pause": programs / "pause"}, ["/pause"])
        archives = [directory / "pause.tar", *(image.resolve() for image in images)]
        holder = await start(
            name,
            [*_private(own_network), "bash", "-c", INSIDE, "node", str(programs), str(directory), *map(str, archives)],
            log=directory / "node.log",
            env=_environment(name, number, labels),
        )
        try:
            if own_network:
                await plane.kubectl("apply", "--server-side", "--filename=-", input=json.dumps(dns_rights()))
                await connect(number, await _inside(holder))
            await _ready(plane, name, holder)
            try:
                yield RealNode(name, number.address, number.machine_address, directory)
            finally:
                await remove_nodes(plane, f"kubernetes.io/hostname={name}", holder)
        finally:
            await _end(holder)
            _remove_state(directory)


def _private(own_network: bool) -> Sequence[str]:
    return (*PRIVATE, "--net") if own_network else PRIVATE


def _remove_state(directory: Path) -> None:
    """Remove images, layers and volumes, which are large, and keep the logs."""
    for state in (directory / "containerd", directory / "kubelet"):
        if state.exists():
            shutil.rmtree(state)


def _environment(name: str, number: NodeNumber, labels: Mapping[str, str]) -> dict[str, str]:
    listed = ",".join(f"{label}={value}" for label, value in labels.items())
    return {"NODE_NAME": name, "NODE_ADDRESS": number.address, "NODE_LABELS": listed}


def _check_user(programs: Sequence[str]) -> None:
    if os.geteuid() != 0:
        raise NodeNotPossible("a real node needs mounts, cgroups and network interfaces: run this as root")
    if missing := [program for program in (*_PROGRAMS, *programs) if shutil.which(program) is None]:
        packages = "bash, util-linux, mount, iproute2 and, for a network of its own, iptables"
        raise NodeNotPossible(f"a real node needs {', '.join(missing)}: install {packages}")


async def _check(directory: Path, programs: Path) -> None:
    scratch = directory / "check"
    scratch.mkdir(parents=True)
    argv = [*PRIVATE, "sh", "-c", _CHECK, "check", str(programs / "runc")]
    check = await run("check", argv, log=directory / "check.log", cwd=scratch)
    shutil.rmtree(scratch)
    if check.exit_code != 0:
        raise NodeNotPossible(f"this machine cannot run containers in {directory}: {check.tail()}")


async def _ready(plane: ControlPlane, name: str, holder: Process) -> None:
    status = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'

    async def ready() -> bool:
        return await plane.kubectl("get", "node", name, "--ignore-not-found", f"--output={status}") == "True"

    await until(ready, seconds=_READY_SECONDS, what=f"the node {name}", every=0.1, process=holder)


async def _inside(holder: Process) -> int:
    """The pid of the first process inside the namespaces."""

    def started() -> bool:
        return bool(psutil.Process(holder.pid).children())

    await until(started, seconds=_END_SECONDS, what=f"the namespaces of {holder.name}", process=holder)
    return psutil.Process(holder.pid).children()[0].pid


async def _end(holder: Process) -> None:
    """Kill the first process inside the namespaces; the kernel reports its end only after that of all the others."""
    with suppress(psutil.NoSuchProcess):
        inside = psutil.Process(holder.pid).children()
        for process in inside:
            process.kill()
        if not inside:
            holder.kill()
    await until(lambda: not holder.alive, seconds=_END_SECONDS, what=f"the end of {holder.name}")
