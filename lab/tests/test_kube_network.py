"""A real node with a network of its own: Services have addresses and names, and the machine keeps its firewall."""

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import psutil
import pytest
from clusterra_lab.kube.access import KubectlFailed
from clusterra_lab.kube.image import write_image
from clusterra_lab.kube.kubernetes import ControlPlane, control_plane
from clusterra_lab.kube.node import NodeNotPossible, RealNode, real_node, remove_node_leftovers
from clusterra_lab.kube.node_number import reserved_node_number
from clusterra_lab.kube.programs.binaries import BINARIES, can_have_binaries
from clusterra_lab.machine.process import until

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(
        not can_have_binaries(BINARIES),
        reason="the Kubernetes programs are not in KUBEBUILDER_ASSETS, and there is no 'go' to build them",
    ),
    pytest.mark.skipif(shutil.which("iptables") is None, reason="kube-proxy needs iptables"),
]

IMAGE = "lab.clusterra.dev/kubectl:1"

LOGIN = ("--username=somebody", "--password=nothing")
"""Without them kubectl asks for a user when it is given a server."""

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: lab.clusterra.dev/kubectl:1
        imagePullPolicy: Never
        args: [proxy, --address=0.0.0.0, --port=8001, --accept-hosts=.*, --www=/]
        readinessProbe: {httpGet: {path: /static/, port: 8001}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8001}]}
"""

HOLD = """
import asyncio, pathlib, sys
from clusterra_lab.kube.node import real_node
from clusterra_lab.kube.node_number import reserved_node_number
from clusterra_lab.kube.kubernetes import control_plane
async def main():
    async with reserved_node_number(own_network=True) as number:
        async with control_plane(pathlib.Path(sys.argv[1]), site=number.site) as plane:
            async with real_node(plane, number=number) as node:
                print(node.name, flush=True)
                await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[ControlPlane, RealNode]]:
    image = tmp_path_factory.mktemp("image") / "kubectl.tar"
    try:
        async with (
            reserved_node_number(own_network=True) as number,
            control_plane(tmp_path_factory.mktemp("kubernetes"), site=number.site) as plane,
        ):
            write_image(image, IMAGE, {"/kubectl": plane.programs / "kubectl"}, ["/kubectl"])
            async with real_node(plane, number=number, images=[image]) as node:
                yield plane, node
    except NodeNotPossible as problem:
        pytest.skip(str(problem))


async def in_a_pod(plane: ControlPlane, name: str, *argv: str) -> str:
    """Run kubectl with these arguments in a pod and return its output."""
    run = ("run", name, f"--image={IMAGE}", "--image-pull-policy=Never", "--restart=Never")
    await plane.kubectl(*run, "--", *argv)
    phase = "jsonpath={.status.phase}"

    async def ended() -> bool:
        return await plane.kubectl("get", "pod", name, f"--output={phase}") in ("Succeeded", "Failed")

    await until(ended, seconds=60, what=f"the end of the pod {name}", every=0.2)
    return await plane.kubectl("logs", name)


async def status(url: str) -> int | None:
    async with aiohttp.ClientSession() as http:
        try:
            async with http.get(url, timeout=aiohttp.ClientTimeout(total=5)) as answer:
                return answer.status
        except aiohttp.ClientError:
            return None


async def test_a_service_is_reached_by_name_from_pods_and_by_address_from_the_machine(
    cluster: tuple[ControlPlane, RealNode],
) -> None:
    plane, _ = cluster
    await plane.kubectl("apply", "--filename=-", input=WEB)
    await plane.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    service = json.loads(await plane.kubectl("get", "service", "web", "--output=json"))["spec"]

    async def answers() -> bool:
        return await status(f"http://{service['clusterIP']}/static/") == 200

    await until(answers, seconds=240, what="the Service to answer")
    listed = await in_a_pod(plane, "client", "get", "--raw=/static/", "--server=http://web", *LOGIN)

    assert "kubectl" in listed
    assert firewall() == []


async def test_a_pod_reaches_the_api_server_by_the_address_and_the_name_of_its_service(
    cluster: tuple[ControlPlane, RealNode],
) -> None:
    plane, _ = cluster

    by_address = await in_a_pod(plane, "address", "get", "--raw=/version")
    by_name = await in_a_pod(plane, "name", "get", "--raw=/version", "--server=https://kubernetes.default", *LOGIN)

    assert "v1." in by_address
    # It found the API server and did not trust the certificate, because it was given no authority.
    assert "certificate signed by unknown authority" in by_name


async def test_the_logs_and_programs_of_a_pod_are_reached_through_the_api_server(
    cluster: tuple[ControlPlane, RealNode],
) -> None:
    plane, _ = cluster
    run = ("run", "held", f"--image={IMAGE}", "--image-pull-policy=Never", "--", "proxy")
    await plane.kubectl(*run)
    await plane.kubectl("wait", "--for=condition=Ready", "pod/held", "--timeout=60s")

    version = await plane.kubectl("exec", "held", "--", "/kubectl", "version", "--client")

    assert "Client Version" in version
    with pytest.raises(KubectlFailed):
        await plane.kubectl("exec", "held", "--", "/none")


async def test_a_killed_owner_leaves_no_process_and_its_resources_can_be_removed(tmp_path: Path) -> None:
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
    number = name.removeprefix("node-")
    await until(lambda: not mentioning(tmp_path), seconds=90, what="the end of all processes")
    link = f"clusterra{number}"
    await until(lambda: link not in psutil.net_if_addrs(), seconds=30, what="the end of the network namespace")

    removed = await remove_node_leftovers()

    assert f"address 10.251.0.{number}" in removed
    assert f"cgroup clusterra-node-{number}" in removed
    assert f"10.253.{number}." not in routes()
    assert firewall() == []


def firewall() -> list[str]:
    """The machine's rules that come from kube-proxy or name an interface of a node; container engines have others."""
    tables = [
        subprocess.run(
            ["iptables", "--table", table, "--list-rules"], capture_output=True, text=True, check=True
        ).stdout
        for table in ("filter", "nat")
    ]
    rules = [rule for table in tables for rule in table.splitlines() if "KUBE-" in rule or "clusterra" in rule]
    # A node without a network of its own has this rule; another lab may run one now.
    return [rule for rule in rules if not re.fullmatch(r"-A FORWARD -i (\S+) -o \1 -j ACCEPT", rule)]


def routes() -> str:
    return subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout


def mentioning(directory: Path) -> list[str]:
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE and str(directory) in " ".join(process.info["cmdline"] or [])
    ]
