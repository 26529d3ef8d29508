"""Kubernetes in a container: K3s, for machines with a container engine but without Go and Debian packages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_lab.kube.access import KubectlFailed, Kubernetes
from clusterra_lab.machine.container import Image, container
from clusterra_lab.machine.ports import kept_port
from clusterra_lab.machine.process import until

_IMAGE = "rancher/k3s:v1.33.4-k3s1"
_START_SECONDS = 120.0


@asynccontextmanager
async def kube_container(directory: Path, programs: Path) -> AsyncIterator[Kubernetes]:
    """Run K3s with one node until the block ends; `programs` has kubectl. Raises NoContainerEngine, TimeoutError."""
    port = kept_port(directory / "port")
    output = directory / "k3s"
    output.mkdir(parents=True, exist_ok=True)
    kubeconfig = output / "kubeconfig"
    image = Image(
        _IMAGE,
        # The same port inside and outside, so that the kubeconfig that K3s writes works outside.
        ports={port: port},
        environment={"K3S_KUBECONFIG_OUTPUT": "/output/kubeconfig", "K3S_KUBECONFIG_MODE": "600"},
        volumes={output: "/output"},
        scratch=("/run", "/var/run"),
        command=["server", f"--https-listen-port={port}", "--disable=traefik,metrics-server,servicelb"],
        options={"privileged": True},
    )
    async with container(image):
        await until(kubeconfig.exists, seconds=_START_SECONDS, what="the kubeconfig of K3s")
        kubernetes = Kubernetes(f"https://127.0.0.1:{port}", kubeconfig, directory, programs)
        await until(lambda: _has_node(kubernetes), seconds=_START_SECONDS, what="the node of K3s", every=0.5)
        yield kubernetes


async def _has_node(kubernetes: Kubernetes) -> bool:
    try:
        return bool(await kubernetes.kubectl("get", "nodes", "--output=name"))
    except KubectlFailed:
        return False
