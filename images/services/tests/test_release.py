"""A release: images pushed to a registry on this machine, their digests for kustomize, and their bills of materials."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from clusterra_lab.machine.process import until
from container_engine import container, docker, done, inspect
from image_sboms import Bom
from pydantic import BaseModel, ConfigDict
from service_containers import ROOT, VERSION, locked
from uv import find_uv_bin

pytestmark = [pytest.mark.containers, pytest.mark.usefixtures("images")]

COMPONENT = ROOT / "k8s" / "central" / "components" / "digests" / "kustomization.yaml"
REGISTRY_DOCKERFILE = """\
FROM debian:trixie-slim
RUN apt-get update --quiet && apt-get install --yes --no-install-recommends docker-registry
"""
REGISTRY_CONFIG = """\
version: 0.1
storage: {filesystem: {rootdirectory: /var/lib/registry}}
http: {addr: ":5000"}
"""
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")


class Package(BaseModel):
    """A component of a bill of materials."""

    model_config = ConfigDict(extra="ignore")

    name: str
    version: str = ""
    purl: str = ""


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[str]:
    """`host:port` of an empty registry, Debian's."""
    (tmp_path / "Dockerfile").write_text(REGISTRY_DOCKERFILE)
    (tmp_path / "config.yml").write_text(REGISTRY_CONFIG)
    await done("build", "--quiet", "--tag=clusterra-test-registry", str(tmp_path))
    options = ("--publish=127.0.0.1::5000", f"--volume={tmp_path}/config.yml:/config.yml:ro")
    command = ("docker-registry", "serve", "/config.yml")
    async with container("clusterra-test-registry", *options, command=command) as identity:
        address = await done("port", identity, "5000/tcp")

        def answers() -> bool:
            try:
                with urlopen(f"http://{address}/v2/", timeout=2) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        await until(lambda: asyncio.to_thread(answers), seconds=120, what="the registry")
        yield address


async def _python(*argv: str, environment: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *argv, env=environment, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


def _digest(registry: str, image: str) -> str:
    request = Request(f"http://{registry}/v2/{image}/manifests/{VERSION}", method="HEAD")
    request.add_header("Accept", ", ".join(MANIFESTS))
    with urlopen(request, timeout=5) as answer:
        return str(answer.headers["Docker-Content-Digest"])


async def _make(*argv: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "make", *argv, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()[-2000:]
    return output.decode()


async def test_make_builds_the_named_images_from_the_commit() -> None:
    version = f"{VERSION}-make"

    await _make("images", "IMAGES=events", f"IMAGES_VERSION={version}")

    labels = (await inspect(f"clusterra-events:{version}"))["Config"]["Labels"]
    await done("rmi", f"clusterra-events:{version}")
    assert labels["org.opencontainers.image.version"] == version
    assert re.fullmatch("[0-9a-f]{40}", labels["org.opencontainers.image.revision"])


async def test_the_component_names_what_the_registry_has(registry: str, tmp_path: Path) -> None:
    metadata, component = tmp_path / "metadata.json", tmp_path / "kustomization.yaml"
    component.write_text(COMPONENT.read_text())
    environment = os.environ | {"VERSION": VERSION, "REGISTRY": f"{registry}/"}
    push = ("buildx", "bake", "--file=docker-bake.hcl", "--push", f"--metadata-file={metadata}", "scaler")

    pushed = await docker(*push, environment=environment, directory=ROOT)
    assert pushed.returncode == 0, pushed.stdout[-2000:]
    await done("rmi", f"{registry}/clusterra-scaler:{VERSION}")
    await _python("tools/image_digests.py", str(metadata), str(component), environment=environment)

    digest = await asyncio.to_thread(_digest, registry, "clusterra-scaler")
    expected = f'- {{name: clusterra-scaler, newName: {registry}/clusterra-scaler, digest: "{digest}"}}'
    assert expected in component.read_text().splitlines()
    by_digest = f"{registry}/clusterra-scaler@{digest}"
    await done("pull", by_digest)
    await done("rmi", by_digest)


async def test_a_bill_of_materials_has_the_packages_of_debian_and_of_the_lock(tmp_path: Path) -> None:
    lock = ROOT / "images" / "services" / "sbom.lock"
    for command in (
        ("venv", "--quiet", f"{tmp_path}/syft"),
        ("pip", "sync", "--quiet", f"--python={tmp_path}/syft", "--require-hashes", str(lock)),
    ):
        uv = await asyncio.create_subprocess_exec(find_uv_bin(), *command)
        assert await uv.wait() == 0
    environment = os.environ | {"VERSION": VERSION}

    script = ("tools/image_sboms.py", f"{tmp_path}/syft/bin/syft", str(tmp_path), "events")
    printed = await _python(*script, environment=environment)

    file = tmp_path / "clusterra-events.cdx.json"
    assert printed.startswith(f"{file}: ")
    packages = [Package.model_validate(each) for each in Bom.model_validate_json(file.read_bytes()).components]
    python = {package.name: package.version for package in packages if package.purl.startswith("pkg:pypi/")}
    assert python["aiohttp"] == locked()["aiohttp"]
    assert {"clusterra-events", "clusterra-runtime", "clusterra-contracts", "pydantic", "nats-py"} <= python.keys()
    assert any(package.purl.startswith("pkg:deb/debian/libc6@") for package in packages)
