"""Secrets of Kubernetes, on a real API server, with a ServiceAccount that may read exactly one of them."""

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.machine.ports import free_port
from clusterra_runtime.secrets import kubernetes
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable

KEY = "hunter2-the-value"
RIGHTS = f"""
apiVersion: v1
kind: ServiceAccount
metadata: {{name: proxy}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: slurm-keys}}
rules:
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [slurm-keys]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: slurm-keys}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: slurm-keys}}
subjects:
- {{kind: ServiceAccount, name: proxy, namespace: TENANT}}
---
apiVersion: v1
kind: Secret
metadata: {{name: slurm-keys}}
stringData: {{jwt: "{KEY}\\n", empty: ""}}
---
apiVersion: v1
kind: Secret
metadata: {{name: others}}
stringData: {{jwt: "{KEY}"}}
"""


@pytest.fixture
async def account(plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that Kubernetes would mount into a pod of this ServiceAccount."""
    rights = RIGHTS.replace("TENANT", namespace)
    await plane.kubectl("create", f"--namespace={namespace}", "--filename=-", input=rights)
    config = json.loads((await plane.service_account(namespace, "proxy")).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    (tmp_path / "ca.crt").write_bytes(b64decode(cluster["certificate-authority-data"]))
    (tmp_path / "token").write_text(user["token"])
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(kubernetes, "ACCOUNT", tmp_path)
    return tmp_path


@pytest.fixture
async def secrets() -> AsyncIterator[Secrets]:
    async with Secrets(refresh_seconds=0, retry_seconds=0) as opened:
        yield opened


@pytest.mark.usefixtures("account")
async def test_the_one_secret_is_read_and_no_other(secrets: Secrets, namespace: str) -> None:
    assert await secrets.read(f"kubernetes:{namespace}/slurm-keys/jwt") == KEY.encode()
    assert await secrets.read_binary(f"kubernetes:{namespace}/slurm-keys/jwt") == f"{KEY}\n".encode()
    with pytest.raises(SecretUnavailable, match="allow `get` on the Secret others in the namespace") as caught:
        await secrets.read(f"kubernetes:{namespace}/others/jwt")
    assert KEY not in str(caught.value)


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(("key", "problem"), [("none", "has no key none"), ("empty", "has an empty key empty")])
async def test_a_missing_or_empty_key_is_named(secrets: Secrets, namespace: str, key: str, problem: str) -> None:
    with pytest.raises(SecretUnavailable, match=problem):
        await secrets.read(f"kubernetes:{namespace}/slurm-keys/{key}")


@pytest.mark.usefixtures("account")
async def test_a_replaced_secret_is_seen_and_kept_while_the_server_is_away(
    plane: ControlPlane, secrets: Secrets, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = f"kubernetes:{namespace}/slurm-keys/jwt"
    assert await secrets.read(reference) == KEY.encode()

    patch = json.dumps({"stringData": {"jwt": "replaced"}})
    await plane.kubectl("patch", "secret", "slurm-keys", f"--namespace={namespace}", "--patch", patch)

    assert await secrets.read(reference) == b"replaced"

    # Other tests share the server, so this one looks for it at a port where nobody listens.
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(free_port()))

    assert await secrets.read(reference) == b"replaced"


async def test_a_wrong_token_is_an_outage_that_names_the_status(
    account: Path, secrets: Secrets, namespace: str
) -> None:
    (account / "token").write_text("not-a-token")
    with pytest.raises(SecretUnavailable, match="status 401"):
        await secrets.read(f"kubernetes:{namespace}/slurm-keys/jwt")


async def test_outside_a_pod_the_error_names_the_alternative(secrets: Secrets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SecretUnavailable, match=r"only be read in a pod.*file:/path"):
        await secrets.read("kubernetes:tenant-acme/slurm-keys/jwt")
