"""What compose/k3s applies to K3s and how compose.yaml runs it, as far as both can be checked without K3s's image."""

import ipaddress
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from central_manifests import Manifest, apply, build, kubectl_path, named, pod_spec
from clusterra_lab.kube.kubernetes import ControlPlane
from reachability import Pod, reaches

ROOT = Path(__file__).parents[2]
K3S = ROOT / "compose" / "k3s"
NETWORK = "172.19.0.0/16"
VALUES = {
    "NETWORK": NETWORK,
    "PORT": "18080",
    "IMAGES": "example/",
    "VERSION": "1.2",
    "COREDNS": "example/coredns:1",
    "CGROUPS": "yes",
}
RESERVED = ("replace-me", "192.0.2.", "198.51.100.", "@")


@pytest.fixture(scope="module")
async def built(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The site as `setup` renders it."""
    folder = tmp_path_factory.mktemp("k3s")
    shutil.copytree(ROOT / "k8s" / "edge", folder / "k8s" / "edge")
    site = folder / "setup" / "site"
    site.mkdir(parents=True)
    for file in (K3S / "site").iterdir():
        (site / file.name).write_text(re.sub("@([A-Z0-9]+)@", lambda match: VALUES[match[1]], file.read_text()))
    return build(await kubectl_path(), site)


def secrets_of(manifest: Manifest) -> set[str]:
    spec = pod_spec(manifest) or {}
    return {volume["secret"]["secretName"] for volume in spec.get("volumes", ()) if "secret" in volume}


def test_the_site_leaves_nothing_open(built: list[Manifest]) -> None:
    text = json.dumps(built)

    assert [word for word in RESERVED if word in text] == []
    assert not {each["kind"] for each in built} & {"NodePool", "EC2NodeClass"}
    images = {each["image"] for one in built if (spec := pod_spec(one)) for each in spec["containers"]}
    assert images == {"example/clusterra-slurmd:1.2", "example/clusterra-edge-agent:1.2", "example/coredns:1"}


def test_the_agent_reaches_the_servers_of_sessions(built: list[Manifest]) -> None:
    policies = [each for each in built if each["kind"] == "NetworkPolicy" and each["metadata"]["namespace"] == "slurm"]
    agent, worker = (
        Pod(name, "slurm", {"app.kubernetes.io/name": name}, {"kubernetes.io/metadata.name": "slurm"})
        for name in ("edge-agent", "slurmd")
    )

    reached = {port for port in (22, 6818, 8888) if reaches(policies, agent, worker, port, "TCP")}

    assert reached == {8888}


def test_every_secret_of_the_pods_is_made(built: list[Manifest]) -> None:
    setup = (K3S / "setup").read_text()
    made = dict(re.findall(r"^secret (\S+) --from-file=/etc/clusterra/(\S+)", setup, re.MULTILINE))
    folder = re.findall(r"^folder k3s 0\n((?:put .*\n)+)", (ROOT / "compose/init/secrets").read_text(), re.MULTILINE)
    put = {line.split()[-1].strip('"').rpartition("/")[2] for line in folder[0].splitlines()}

    assert set(made) == set().union(*map(secrets_of, built))
    assert set(made.values()) == put
    settings = next(each for each in built if each["metadata"]["name"].startswith("edge-agent-") and "data" in each)
    assert settings["data"]["CLUSTERRA_NATS_CREDENTIALS_FILE"].endswith(f"/{made['edge-agent-nats']}")
    assert settings["data"]["CLUSTERRA_AGENT_KEY_FILE"].endswith(f"/{made['edge-agent-key']}")


def test_the_gpu_files_of_slurm_s_configuration_are_made() -> None:
    named_files = set(re.findall(r"File=/etc/slurm/gpu\[0-(\d+)\]", (ROOT / "compose/slurm/gres.conf").read_text()))
    numbers = re.search(r"^for number in (.+); do", (K3S / "setup").read_text(), re.MULTILINE)

    assert numbers is not None
    assert numbers[1].split() == [str(number) for number in range(int(named_files.pop()) + 1)]
    assert not named_files


@pytest.mark.parametrize(
    "own", ["172.19.0.8/16", "192.168.191.254/20", "10.9.8.7/24", "10.0.3.130/25", "172.31.2.3/12"]
)
def test_pods_have_the_upper_half_of_the_network(own: str) -> None:
    printed = subprocess.run([K3S / "pod-network", own], capture_output=True, text=True, check=True, timeout=10).stdout

    network = ipaddress.ip_interface(own).network
    assert printed.split() == [str(network), str(list(network.subnets())[1])]


async def test_the_api_server_accepts_the_site(built: list[Manifest], plane: ControlPlane, namespace: str) -> None:
    # The API server of the lab has another network of Services.
    del named(built, "Service", "names")["spec"]["clusterIP"]
    # Nothing is written, so the namespace of the site must be there before.
    moved = json.loads(json.dumps(built).replace('"namespace": "slurm"', f'"namespace": "{namespace}"'))

    accepted = await apply(plane, moved, "--dry-run=server", "--force-conflicts")

    assert len(accepted.splitlines()) == len(built)


@pytest.mark.containers
def test_k3s_publishes_nothing_and_only_it_is_privileged() -> None:
    if shutil.which("docker") is None:
        pytest.skip("there is no docker")
    shown = subprocess.run(
        ["docker", "compose", "--profile=k3s", "config", "--format=json"],
        cwd=ROOT,
        env={**os.environ, "COMPOSE_PROJECT_NAME": "k3s"},
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    services: dict[str, Any] = json.loads(shown)["services"]

    assert {name for name, service in services.items() if service.get("privileged")} == {"k3s"}
    assert list(services["k3s"]["networks"]) == ["edge"]
    assert services["k3s-setup"]["network_mode"] == "service:k3s"
    assert not services["k3s"].get("ports")
    mounts = [mount["source"] for each in services.values() for mount in each.get("volumes", ())]
    assert not [source for source in mounts if "docker.sock" in source]
    assert services["edge"]["depends_on"]["k3s-setup"]["required"] is False
