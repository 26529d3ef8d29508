"""One real node of Kubernetes on this machine: kubelet, containerd and runc really run the pods.

They live in private pid and mount namespaces and end with whoever holds the node, also when that is killed. Pods share
the machine's network only when they ask for it (`hostNetwork`); there is no DNS, and no Service has an address.
"""

import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import psutil

from clusterra_lab.kube.binaries import ensure_node_binaries
from clusterra_lab.kube.control_plane import ControlPlane
from clusterra_lab.kube.image import write_image
from clusterra_lab.kube.node_config import INSIDE, PAUSE_IMAGE, write_config
from clusterra_lab.kube.node_number import NodeNotPossible, NodeNumber, remove_leftovers, taken_number
from clusterra_lab.kube.node_removal import remove_nodes
from clusterra_lab.machine.debian_root import PRIVATE
from clusterra_lab.machine.process import Process, run, start, until
from clusterra_lab.machine.progress import Progress, silent

__all__ = ["PAUSE_IMAGE", "NodeNotPossible", "RealNode", "real_node", "remove_leftovers"]

_PROGRAMS = ("bash", "ip", "mount", "unshare")
_READY_SECONDS = 60.0
_END_SECONDS = 20.0

_CHECK = """\
set -eu
mount -t proc proc /proc
mkdir lower upper work merged
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
umount merged
"$1" --version
"""
"""Fails where a container could not be made."""

NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class RealNode:
    """A node that is Ready."""

    name: str
    """Of the Node, and the value of its label kubernetes.io/hostname."""
    address: str
    """Of kubelet, on this machine's loopback interface."""
    directory: Path
    """With kubelet.log and containerd.log."""


@asynccontextmanager
async def real_node(
    plane: ControlPlane,
    *,
    images: Sequence[Path] = (),
    labels: Mapping[str, str] = NO_LABELS,
    progress: Progress = silent,
) -> AsyncIterator[RealNode]:
    """A Ready node until the block ends. `images` are tar files of `docker save`, or of `write_image`.

    Pods find only these images and PAUSE_IMAGE: `imagePullPolicy: Never`. Several nodes may run at once; what a killed
    owner left behind goes with the next node or by `remove_leftovers`. The API server has to answer at the end.
    Raises NodeNotPossible, BinariesNotBuilt, KubectlFailed, ProcessDied, TimeoutError.
    """
    _check_user()
    programs = await ensure_node_binaries(progress)
    async with taken_number() as number:
        name = f"node-{number.number}"
        directory = plane.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        await _check(directory, programs)
        progress(f"a node of Kubernetes with {len(images)} images")
        write_config(directory, programs, number, name=name, url=plane.url, authority=plane.authority)
        write_image(directory / "pause.tar", PAUSE_IMAGE, {"/pause": programs / "pause"}, ["/pause"])
        archives = [directory / "pause.tar", *(image.resolve() for image in images)]
        holder = await start(
            name,
            [*PRIVATE, "bash", "-c", INSIDE, "node", str(programs), str(directory), *map(str, archives)],
            log=directory / "node.log",
            env=_environment(name, number, labels),
        )
        try:
            await _ready(plane, name, holder)
            try:
                yield RealNode(name, number.address, directory)
            finally:
                await remove_nodes(plane, f"kubernetes.io/hostname={name}", holder)
        finally:
            await _end(holder)
            _forget(directory)


def _forget(directory: Path) -> None:
    """All but the logs: images and layers are large."""
    for state in (directory / "containerd", directory / "kubelet"):
        if state.exists():
            shutil.rmtree(state)


def _environment(name: str, number: NodeNumber, labels: Mapping[str, str]) -> dict[str, str]:
    listed = ",".join(f"{label}={value}" for label, value in labels.items())
    return {"NODE_NAME": name, "NODE_ADDRESS": number.address, "NODE_LABELS": listed}


def _check_user() -> None:
    if os.geteuid() != 0:
        raise NodeNotPossible("a real node mounts, and makes cgroups and network interfaces: run this as root")
    if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
        raise NodeNotPossible(f"a real node needs {', '.join(missing)}: install bash, util-linux, mount and iproute2")


async def _check(directory: Path, programs: Path) -> None:
    scratch = directory / "check"
    scratch.mkdir(parents=True)
    argv = [*PRIVATE, "sh", "-c", _CHECK, "check", str(programs / "runc")]
    check = await run("check", argv, log=directory / "check.log", cwd=scratch)
    shutil.rmtree(scratch)
    if check.exit_code != 0:
        raise NodeNotPossible(f"containers cannot be made in {directory}: {check.tail()}")


async def _ready(plane: ControlPlane, name: str, holder: Process) -> None:
    status = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'

    async def ready() -> bool:
        return await plane.kubectl("get", "node", name, "--ignore-not-found", f"--output={status}") == "True"

    await until(ready, seconds=_READY_SECONDS, what=f"the node {name}", every=0.1, process=holder)


async def _end(holder: Process) -> None:
    """Kill the first process inside: it is seen to be gone only when all the others are."""
    with suppress(psutil.NoSuchProcess):
        inside = psutil.Process(holder.pid).children()
        for process in inside:
            process.kill()
        if not inside:
            holder.kill()
    await until(lambda: not holder.alive, seconds=_END_SECONDS, what=f"the end of {holder.name}")
