"""The components for references to secrets, on a real API server: each account reads one Secret of the tenant only."""

import json
from base64 import b64decode
from pathlib import Path

import pytest
from central_manifests import CENTRAL, apply, build, kubectl_path, named, overlay
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_runtime.secrets import kubernetes
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable

TENANT = "tenant-acme"
KEY = "the-key-of-acme"


@pytest.fixture(scope="module")
async def kubectl() -> Path:
    return await kubectl_path()


@pytest.fixture(scope="module")
async def tenant(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, kubectl: Path) -> ControlPlane:
    """The accounts of the central services, and a tenant's namespace with its component and two Secrets."""
    folder = tmp_path_factory.mktemp("tenant")
    component = CENTRAL / "tenant" / "secret-references"
    await apply(plane, build(kubectl, CENTRAL / "base" / "namespace"))
    for service in ("proxy", "gateway", "gateway-work", "scaler"):
        await apply(plane, [named(build(kubectl, CENTRAL / "base" / service), "ServiceAccount", service)])
    await plane.kubectl("create", "namespace", TENANT)
    await apply(plane, build(kubectl, overlay(folder, resources=[], components=[component], namespace=TENANT)))
    for name in ("slurm-keys", "slurmdbd-password"):
        secret = f"--from-literal=jwt_hs256.key={KEY}"
        await plane.kubectl("create", "secret", "generic", name, f"--namespace={TENANT}", secret)
    return plane


async def mounted(plane: ControlPlane, account: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make this process look like a pod of an account."""
    config = json.loads((await plane.service_account("clusterra", account)).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    (folder / "ca.crt").write_bytes(b64decode(cluster["certificate-authority-data"]))
    (folder / "token").write_text(user["token"])
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    patch.setenv("KUBERNETES_SERVICE_HOST", host)
    patch.setenv("KUBERNETES_SERVICE_PORT", port)
    patch.setattr(kubernetes, "ACCOUNT", folder)


async def test_the_proxy_reads_the_slurm_keys_of_a_tenant_and_nothing_else(
    tenant: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mounted(tenant, "proxy", tmp_path, monkeypatch)
    async with Secrets() as secrets:
        assert await secrets.read(f"kubernetes:{TENANT}/slurm-keys/jwt_hs256.key") == KEY.encode()
        for other in (f"{TENANT}/slurmdbd-password/jwt_hs256.key", "clusterra/slurm-keys/jwt_hs256.key"):
            with pytest.raises(SecretUnavailable, match="may not read it"):
                await secrets.read(f"kubernetes:{other}")


@pytest.mark.parametrize("account", ["scaler", "gateway", "gateway-work"])
async def test_no_other_account_reads_them(
    tenant: ControlPlane, account: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mounted(tenant, account, tmp_path, monkeypatch)
    async with Secrets() as secrets:
        with pytest.raises(SecretUnavailable, match="may not read it"):
            await secrets.read(f"kubernetes:{TENANT}/slurm-keys/jwt_hs256.key")


async def test_only_with_the_component_the_pods_that_read_secrets_have_a_token(kubectl: Path, tmp_path: Path) -> None:
    component = CENTRAL / "components" / "secret-references"
    for name in ("dev", "prod"):
        folder = tmp_path / name
        folder.mkdir()
        built = build(kubectl, overlay(folder, resources=[CENTRAL / "overlays" / name], components=[component]))
        tokens = {
            each["metadata"]["name"]
            for each in built
            if each["kind"] == "Deployment" and each["spec"]["template"]["spec"]["automountServiceAccountToken"]
        }

        assert tokens == {"proxy", "gateway", "gateway-work", "admin"}
        assert named(built, "NetworkPolicy", "secret-references")
