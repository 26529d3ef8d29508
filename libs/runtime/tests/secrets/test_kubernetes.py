"""Secrets of Kubernetes, on a real API server, with a ServiceAccount that may read exactly one of them."""

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.kube.kubernetes import ControlPlane, control_plane
from clusterra_lab.kube.programs.binaries import BinariesNotBuilt
from clusterra_runtime.secrets import kubernetes
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable

NAMESPACE = "tenant-acme"
KEY = "hunter2-the-value"
RIGHTS = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: proxy, namespace: {NAMESPACE}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: slurm-keys, namespace: {NAMESPACE}}}
rules:
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [slurm-keys]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: slurm-keys, namespace: {NAMESPACE}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: slurm-keys}}
subjects:
- {{kind: ServiceAccount, name: proxy, namespace: {NAMESPACE}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: slurm-keys, namespace: {NAMESPACE}}}
stringData: {{jwt: "{KEY}\\n", empty: ""}}
---
apiVersion: v1
kind: Secret
metadata: {{name: others, namespace: {NAMESPACE}}}
stringData: {{jwt: "{KEY}"}}
"""


@pytest.fixture(scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    try:
        async with control_plane(tmp_path_factory.mktemp("kubernetes")) as running:
            await running.kubectl("apply", "--filename=-", input=RIGHTS)
            yield running
    except BinariesNotBuilt as error:
        pytest.skip(str(error))


@pytest.fixture
async def account(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that Kubernetes would mount into a pod of this ServiceAccount."""
    config = json.loads((await plane.service_account(NAMESPACE, "proxy")).read_text())
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
async def test_the_one_secret_is_read_and_no_other(secrets: Secrets) -> None:
    assert await secrets.read(f"kubernetes:{NAMESPACE}/slurm-keys/jwt") == KEY.encode()
    assert await secrets.read_binary(f"kubernetes:{NAMESPACE}/slurm-keys/jwt") == f"{KEY}\n".encode()
    with pytest.raises(SecretUnavailable, match="allow `get` on the Secret others in the namespace") as caught:
        await secrets.read(f"kubernetes:{NAMESPACE}/others/jwt")
    assert KEY not in str(caught.value)


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(("key", "problem"), [("none", "has no key none"), ("empty", "has an empty key empty")])
async def test_a_missing_or_empty_key_is_named(secrets: Secrets, key: str, problem: str) -> None:
    with pytest.raises(SecretUnavailable, match=problem):
        await secrets.read(f"kubernetes:{NAMESPACE}/slurm-keys/{key}")


@pytest.mark.usefixtures("account")
async def test_a_replaced_secret_is_seen_and_kept_while_the_server_is_away(
    plane: ControlPlane, secrets: Secrets
) -> None:
    reference = f"kubernetes:{NAMESPACE}/slurm-keys/jwt"
    assert await secrets.read(reference) == KEY.encode()

    patch = json.dumps({"stringData": {"jwt": "replaced"}})
    await plane.kubectl("patch", "secret", "slurm-keys", f"--namespace={NAMESPACE}", "--patch", patch)

    assert await secrets.read(reference) == b"replaced"

    await plane.kill_api_server()
    try:
        assert await secrets.read(reference) == b"replaced"
    finally:
        await plane.start_api_server()
    await plane.kubectl(
        "patch",
        "secret",
        "slurm-keys",
        f"--namespace={NAMESPACE}",
        "--patch",
        json.dumps({"stringData": {"jwt": f"{KEY}\n"}}),
    )


async def test_a_wrong_token_is_an_outage_that_names_the_status(account: Path, secrets: Secrets) -> None:
    (account / "token").write_text("not-a-token")
    with pytest.raises(SecretUnavailable, match="status 401"):
        await secrets.read(f"kubernetes:{NAMESPACE}/slurm-keys/jwt")


async def test_outside_a_pod_the_error_names_the_alternative(secrets: Secrets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SecretUnavailable, match=r"only be read in a pod.*file:/path"):
        await secrets.read(f"kubernetes:{NAMESPACE}/slurm-keys/jwt")
