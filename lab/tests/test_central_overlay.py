"""The lab's overlay of the central side: its Deployments are those of the dev overlay."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterra_lab.central.overlay import MANIFESTS, CentralSite, write_overlay
from clusterra_lab.kube.programs.binaries import can_have_binaries, ensure_binaries

pytestmark = pytest.mark.skipif(
    not can_have_binaries(["kubectl"]), reason="kubectl is not in KUBEBUILDER_ASSETS, and there is no 'go' to build it"
)

SECRETS = ("session-key", *(f"nats/{name}.creds" for name in ("gateway", "proxy", "scaler", "events", "admin")))
AWS = {"AWS_ENDPOINT_URL": "http://10.251.0.1:4566", "AWS_REGION": "us-east-1"}
OIDC = {"CLUSTERRA_OIDC_ISSUER": "http://machine.localhost:9000", "CLUSTERRA_OIDC_CLIENT_ID": "lab"}

type Objects = dict[tuple[str, str], dict[str, Any]]


async def built(folder: Path) -> Objects:
    """The objects of a kustomization by kind and name, without the suffixes of generated names."""
    kubectl = await ensure_binaries(names=["kubectl"]) / "kubectl"
    process = await asyncio.create_subprocess_exec(kubectl, "kustomize", folder, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    text = re.sub(r"(name: [a-z-]+)-[a-z0-9]{10}$", r"\1", output.decode(), flags=re.MULTILINE)
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}


@pytest.fixture
async def objects(tmp_path: Path) -> Objects:
    secrets = tmp_path / "secrets"
    of_authority = ("nats/authority.creds", "nats/authority-system.creds", "nats/authority.key")
    for name in (*SECRETS, "nats/resolver.conf", *of_authority):
        (secrets / name).parent.mkdir(parents=True, exist_ok=True)
        (secrets / name).write_text(f"the content of {name}")
    site = CentralSite(tmp_path / "site", "10.253.1.0/24", "lab-1")
    write_overlay(site, secrets, aws=AWS, oidc=OIDC)
    return await built(site.folder)


async def test_the_workloads_differ_from_the_dev_overlay_only_in_the_tag_of_their_images(objects: Objects) -> None:
    dev = await built(MANIFESTS / "overlays" / "dev")
    kinds = ("Deployment", "StatefulSet", "Job")

    assert {key for key in dev if key[0] in kinds} == {key for key in objects if key[0] in kinds}
    for key in dev:
        if key[0] not in kinds:
            continue
        (ours,), (theirs,) = (each[key]["spec"]["template"]["spec"]["containers"] for each in (objects, dev))
        if theirs["image"].startswith("clusterra-"):
            assert ours.pop("image") == f"{theirs.pop('image').partition(':')[0]}:lab-1"
        assert objects[key] == dev[key]


async def test_the_gateway_and_nats_have_addresses_that_the_machine_reaches(objects: Objects) -> None:
    site = CentralSite(Path("site"), "10.253.1.0/24", "lab-1")

    assert objects["Service", "gateway"]["spec"]["clusterIP"] == "10.253.1.10"
    assert objects["Service", "nats"]["spec"]["clusterIP"] == "10.253.1.11"
    assert (site.gateway_url, site.nats_url) == ("http://10.253.1.10:8080", "nats://10.253.1.11:4222")


async def test_settings_are_merged_into_those_of_the_dev_overlay(objects: Objects) -> None:
    gateway = objects["ConfigMap", "gateway"]["data"]

    assert gateway.items() >= (AWS | OIDC).items()
    assert gateway["CLUSTERRA_STOP_DELAY_SECONDS"] == "3"
    assert objects["ConfigMap", "tables"]["data"].items() >= AWS.items()
    assert not any("replace-me" in str(each["data"]) for key, each in objects.items() if key[0] == "ConfigMap")
