"""Removes nodes and their pods from Kubernetes while their kubelet or KWOK still runs."""

import asyncio

from clusterra_lab.kube.access import KubectlFailed, Kubernetes
from clusterra_lab.machine.process import Process, until

_SECONDS = 600.0

_DELETIONS_AT_ONCE = 4


async def remove_nodes(kubernetes: Kubernetes, selector: str, process: Process) -> None:
    """Delete the nodes of a label selector, after deleting their pods without a grace period.

    All bindings of admission policies are deleted first, because a policy could keep a pod whose machine goes away.
    `process` is the kubelet or KWOK: without it, pods with a finalizer stay Terminating for ever.
    Raises KubectlFailed, ProcessDied, TimeoutError.
    """
    names = (await kubernetes.kubectl("get", "nodes", f"--selector={selector}", "--output=name")).split()
    ours = {name.removeprefix("node/") for name in names}
    if not ours:
        return
    # The owners of the pods create new ones, which must not be scheduled to these nodes.
    await kubernetes.kubectl("cordon", f"--selector={selector}")
    await kubernetes.kubectl("delete", "validatingadmissionpolicybindings", "--all")
    limit = asyncio.Semaphore(_DELETIONS_AT_ONCE)

    async def delete(namespace: str, node: str) -> None:
        """Delete the pods of one node; a rejection is ignored, because `emptied` tries again.

        A policy stays in force for a moment after its binding is deleted.
        """
        pods = f"/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.nodeName%3D{node}"
        async with limit:
            try:
                await kubernetes.kubectl("delete", f"--raw={pods}&gracePeriodSeconds=0")
            except KubectlFailed as error:
                if "ValidatingAdmissionPolicy" not in str(error):
                    raise

    async def emptied() -> bool:
        left = [(namespace, node) for namespace, node in await _occupied(kubernetes) if node in ours]
        await asyncio.gather(*(delete(namespace, node) for namespace, node in left))
        return not left

    await until(emptied, seconds=_SECONDS, what=f"the end of the pods on {selector}", every=0.1, process=process)
    await kubernetes.kubectl("delete", "nodes", f"--selector={selector}")


async def _occupied(kubernetes: Kubernetes) -> set[tuple[str, str]]:
    """Namespace and node of each scheduled pod."""
    line = r'jsonpath={range .items[?(@.spec.nodeName)]}{.metadata.namespace} {.spec.nodeName}{"\n"}{end}'
    listed = await kubernetes.kubectl("get", "pods", "--all-namespaces", f"--output={line}")
    return {(namespace, node) for namespace, _, node in (entry.partition(" ") for entry in listed.splitlines())}
