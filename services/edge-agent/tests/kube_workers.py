"""Creates Deployments of workers in a namespace of a real API server."""

import json
from dataclasses import dataclass
from typing import Any

from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Pod
from clusterra_lab.kube.kubernetes import Kubernetes
from pydantic import TypeAdapter

SHAPE = "general-xs"


@dataclass(frozen=True)
class Workers:
    """The workers of one namespace, observed and changed as its administrator, not as the agent."""

    kubernetes: Kubernetes
    namespace: str

    async def kubectl(self, *argv: str, stdin: str | None = None) -> str:
        return await self.kubernetes.kubectl(*argv, f"--namespace={self.namespace}", input=stdin)

    async def deploy(self, shape: str = SHAPE, replicas: int = 0, **pod_spec: Any) -> str:
        """Creates the Deployment of a shape. Returns its name."""
        name, labels = f"slurmd-{shape}", {SHAPE_LABEL: shape}
        container = {"name": "slurmd", "image": "slurmd", "imagePullPolicy": "Never"}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **pod_spec}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        await self.kubectl("create", "--filename=-", stdin=json.dumps(deployment))
        return name

    async def create(self, manifest: dict[str, Any]) -> None:
        """Creates an object in this namespace, whichever one its manifest names."""
        own = {**manifest, "metadata": {**manifest["metadata"], "namespace": self.namespace}}
        await self.kubectl("create", "--filename=-", stdin=json.dumps(own))

    async def pods(self) -> list[Pod]:
        items = json.loads(await self.kubectl("get", "pods", "--output=json"))["items"]
        return TypeAdapter(list[Pod]).validate_python(items)

    async def replicas(self, shape: str = SHAPE) -> int:
        return int(await self.kubectl("get", "deployment", f"slurmd-{shape}", "--output=jsonpath={.spec.replicas}"))

    async def set_status(self, pod: str, phase: str, *, ready: bool, **container: Any) -> None:
        """Sets the pod's status as its kubelet would. `container` is the container's state and last state."""
        status: dict[str, Any] = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
        if container:
            own = {"name": "slurmd", "image": "slurmd", "imageID": "", "ready": ready, "restartCount": 1}
            status["containerStatuses"] = [own | container]
        patch = json.dumps({"status": status})
        await self.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", f"--patch={patch}")
