"""Fake nodes on a real control plane."""

import json
import time

import psutil
import pytest
from clusterra_lab.kube.fake_nodes import PrefixTaken, kwok_nodes
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.kube.programs.binaries import BINARIES, can_have_binaries
from clusterra_lab.machine.process import until

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(
        not can_have_binaries(BINARIES),
        reason="the Kubernetes programs are not in KUBEBUILDER_ASSETS, and there is no 'go' to build them",
    ),
]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: workers}
spec:
  replicas: 0
  selector: {matchLabels: {app: workers}}
  template:
    metadata: {labels: {app: workers}}
    spec:
      nodeSelector: {shape: little}
      containers: [{name: worker, image: worker, resources: {requests: {cpu: "2", memory: 1Gi}}}]
"""


async def phases(plane: ControlPlane, namespace: str) -> list[str]:
    """The phase of each pod, and Terminating for one that is being deleted."""
    listed = json.loads(await plane.kubectl("get", "pods", f"--namespace={namespace}", "--output=json"))
    return sorted(
        "Terminating" if "deletionTimestamp" in pod["metadata"] else pod["status"]["phase"] for pod in listed["items"]
    )


async def become(plane: ControlPlane, namespace: str, wanted: list[str]) -> None:
    async def reached() -> bool:
        return await phases(plane, namespace) == wanted

    try:
        await until(reached, seconds=240, what=f"pods {wanted} in {namespace}", every=0.2)
    except TimeoutError as error:
        seen = [
            await plane.kubectl("get", kind, f"--namespace={namespace}", "--output=wide")
            for kind in ("pods", "nodes", "events")
        ]
        seen += [log.read_text()[-2000:] for log in plane.directory.glob("kwok-*.log")]
        raise TimeoutError("\n".join([str(error), *seen])) from error


async def nodes(plane: ControlPlane, prefix: str) -> list[str]:
    """The names of the nodes with this prefix; other tests may have nodes too."""
    listed = await plane.kubectl("get", "nodes", "--output=jsonpath={.items[*].metadata.name}")
    return [name for name in listed.split() if name.startswith(f"{prefix}-")]


async def deploy(plane: ControlPlane, namespace: str) -> None:
    await plane.kubectl("create", f"--namespace={namespace}", "--filename=-", input=DEPLOYMENT)


async def scale(plane: ControlPlane, namespace: str, count: int) -> None:
    await plane.kubectl("scale", "deployment/workers", f"--namespace={namespace}", f"--replicas={count}")


async def test_pods_run_on_fake_nodes_that_fit_their_selector_and_requests(plane: ControlPlane, namespace: str) -> None:
    await deploy(plane, namespace)
    async with kwok_nodes(plane, 2, cpus=4, memory_gib=8, labels={"shape": "little"}):
        for count in (3, 0):
            await scale(plane, namespace, count)
            await become(plane, namespace, ["Running"] * count)
        # Two pods fit on each node.
        await scale(plane, namespace, 5)
        await become(plane, namespace, ["Pending"] + ["Running"] * 4)


async def test_no_pod_node_or_kwok_is_left_at_the_end_of_the_block(plane: ControlPlane, namespace: str) -> None:
    await deploy(plane, namespace)
    async with kwok_nodes(plane, 1, labels={"shape": "little"}, prefix="other"), kwok_nodes(plane, 2):
        await scale(plane, namespace, 2)
        await become(plane, namespace, ["Running"] * 2)
    await become(plane, namespace, ["Pending"] * 2)
    assert await nodes(plane, "other") == await nodes(plane, "fake") == []

    selectors = {
        f"--manage-nodes-with-label-selector=lab.clusterra.dev/fake-nodes={name}" for name in ("fake", "other")
    }
    config = f"--kubeconfig={plane.kubeconfig}"
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]

    assert not [command for command in commands if config in command and selectors & set(command)]


async def test_a_prefix_can_be_used_only_once(plane: ControlPlane) -> None:
    async with kwok_nodes(plane, 1):
        with pytest.raises(PrefixTaken, match="another prefix"):
            async with kwok_nodes(plane, 1):
                pass
        assert await nodes(plane, "fake") == ["fake-0"]


async def test_kwok_renews_the_leases_of_fake_nodes(plane: ControlPlane) -> None:
    async with kwok_nodes(plane, 1, prefix="steady"):

        async def lease() -> str:
            return await plane.kubectl(
                *("get", "lease", "steady-0", "--namespace=kube-node-lease", "--ignore-not-found"),
                "--output=jsonpath={.spec.renewTime}",
            )

        first = await until(lease, seconds=90, what="the first lease", every=0.1)
        began = time.monotonic()

        async def renewed() -> bool:
            return await lease() != first

        await until(renewed, seconds=90, what="a renewed lease", every=0.1)
        assert time.monotonic() - began < 20, "by default a node counts as lost after 40 s"
