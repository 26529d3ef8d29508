"""A tenant's Slurm control plane on the lab's real node: the overlay, the volumes and the worker of a site."""

import base64
import json
import os
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from central_manifests import CENTRAL, Manifest, build, overlay
from clusterra_lab.kube.objects import host_volume
from joserfc import jwt
from joserfc.jwk import OctKey

ROOT = CENTRAL.parents[1]
EDGE = ROOT / "k8s" / "edge"
NAMESPACE = "tenant-acme"
SLURM_UID = 64030
API = "v0.0.44"
OPERATOR = ("clusterra-operator", 9001)
IMAGES = ("slurmctld", "slurmdbd", "slurmrestd", "login", "slurmd")
MARIADB = "mariadb:11.8"
TAG = "k8s-test"
_CLUSTER_CONF = f"""\
ClusterName=main
SlurmctldHost=slurmctld-0(slurmctld.{NAMESPACE})
PartitionName=main Default=YES Nodes=ALL MaxNodes=100 DefMemPerCPU=1024 State=UP
# The node of the test has another size than the shape.
SlurmdParameters=config_overrides
"""


def images_or_skip(archive: Path) -> Path:
    """Builds the images of images/slurm and packs them with MariaDB's. Skips the test where no engine can."""
    if shutil.which("docker") is None:
        pytest.skip("the images of Slurm are built by a container engine: there is no docker")
    environment = {**os.environ, "VERSION": TAG}
    names = [*(f"clusterra-{image}:{TAG}" for image in IMAGES), MARIADB]
    for command in (
        ["docker", "buildx", "bake", "--load", *IMAGES],
        ["docker", "save", "--output", str(archive), *names],
    ):
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        if done.returncode != 0:
            pytest.skip(f"`{' '.join(command[:3])}` fails here: {done.stderr.strip()[-500:]}")
    return archive


def mariadb_ids() -> tuple[int, int]:
    """The uid and gid of `mysql` in the image at hand: 999 in the public one."""
    run = ["docker", "run", "--rm", "--entrypoint=id", MARIADB]
    uid, gid = (
        int(subprocess.run([*run, option, "mysql"], capture_output=True, text=True, check=True, timeout=60).stdout)
        for option in ("--user", "--group")
    )
    return uid, gid


@dataclass(frozen=True)
class Keys:
    """The secrets of one cluster, in a folder."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> "Keys":
        folder.mkdir()
        for name, content in (
            ("slurm.key", secrets.token_bytes(1024)),
            ("jwt_hs256.key", secrets.token_bytes(32)),
            ("slurmdbd-password", secrets.token_hex(16).encode()),
        ):
            (folder / name).write_bytes(content)
        return cls(folder)

    def token(self, name: str, uid: int) -> str:
        """A token as the proxy mints it."""
        identity = {"name": name, "gecos": name, "dir": "/mnt/efs", "shell": "/bin/sh", "gids": [uid]}
        now = int(time.time())
        claims = {"iat": now, "exp": now + 600, "uid": uid, "gid": uid, "id": identity}
        key = OctKey.import_key((self.folder / "jwt_hs256.key").read_bytes())
        return jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, key)


def tenant_overlay(folder: Path, keys: Keys, mariadb: tuple[int, int]) -> Path:
    """The overlay of one cluster as README.md shows it, with the test's images and small requests."""
    folder.mkdir()
    uid, gid = mariadb
    (folder / "cluster.conf").write_text(_CLUSTER_CONF)
    shutil.copytree(keys.folder, folder / "secrets")
    small = [
        {"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests", "value": {"cpu": "10m"}},
        {"op": "add", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "Never"},
    ]
    owner = [
        {"op": "replace", "path": f"/spec/template/spec/securityContext/{name}", "value": value}
        for name, value in (("runAsUser", uid), ("runAsGroup", gid), ("fsGroup", gid))
    ]
    pull = [{"op": "add", "path": "/spec/template/spec/initContainers/0/imagePullPolicy", "value": "Never"}]
    label = [{"op": "replace", "path": "/metadata/labels/clusterra.io~1tenant", "value": "acme"}]
    return overlay(
        folder,
        resources=[CENTRAL / "tenant"],
        components=[CENTRAL / "tenant" / name for name in ("mariadb", "private-tmp", "cgroups")],
        namespace=NAMESPACE,
        generatorOptions={"disableNameSuffixHash": True},
        configMapGenerator=[{"name": "slurm", "behavior": "merge", "files": ["cluster.conf"]}],
        secretGenerator=[
            {"name": "slurm-keys", "files": ["secrets/slurm.key", "secrets/jwt_hs256.key"]},
            {"name": "slurmdbd-password", "files": ["secrets/slurmdbd-password"]},
        ],
        images=[{"name": f"clusterra-{image}", "newTag": TAG} for image in IMAGES],
        patches=[
            {"target": {"kind": "Deployment|StatefulSet|Job"}, "patch": json.dumps(small)},
            {"target": {"kind": "StatefulSet", "name": "mariadb"}, "patch": json.dumps(owner)},
            {"target": {"name": "slurmctld|slurmdbd", "kind": "Deployment|StatefulSet"}, "patch": json.dumps(pull)},
            {"target": {"kind": "Namespace"}, "patch": json.dumps(label)},
        ],
    )


def volume(claim: str, folder: Path, uid: int, gid: int) -> Manifest:
    """A volume on a folder of this machine, for one claim of the tenant."""
    folder.mkdir()
    os.chown(folder, uid, gid)
    return host_volume(NAMESPACE, claim, folder, "ReadWriteOnce")


def worker(kubectl: Path, keys: Keys) -> list[Manifest]:
    """One worker of k8s/edge in its own namespace, with the site's changes for the test's node."""
    folder = keys.folder.parent / "edge"
    folder.mkdir()
    built = build(kubectl, overlay(folder, resources=[EDGE], components=[EDGE / "private-tmp", EDGE / "cgroups"]))
    deployment = next(each for each in built if each["metadata"]["name"] == "slurmd-compute-xs")
    settings = next(
        each for each in built if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("slurmd")
    )
    settings["data"] = {
        "CLUSTERRA_SLURMD_CONF_SERVER": f"slurmctld.{NAMESPACE}:6817",
        "CLUSTERRA_CONFIG_OVERRIDES": "yes",
        "CLUSTERRA_PRIVATE_TMP": settings["data"]["CLUSTERRA_PRIVATE_TMP"],
        "CLUSTERRA_CGROUPS": settings["data"]["CLUSTERRA_CGROUPS"],
    }
    deployment["spec"]["replicas"] = 1
    pod = deployment["spec"]["template"]["spec"]
    del pod["nodeSelector"]
    container = pod["containers"][0]
    container |= {"image": f"clusterra-slurmd:{TAG}", "imagePullPolicy": "Never", "resources": {}}
    (shared,) = (each for each in pod["volumes"] if each["name"] == "shared")
    shared.clear()
    shared |= {"name": "shared", "emptyDir": {}}
    key = base64.b64encode((keys.folder / "slurm.key").read_bytes()).decode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "slurm-key", "namespace": "slurm"},
        "data": {"slurm.key": key},
    }
    wanted = [each for each in built if each["kind"] in ("Namespace", "PriorityClass")]
    return [*wanted, settings, secret, deployment]


@dataclass(frozen=True)
class Rest:
    """slurmrestd at its Service's address, with the token of one user."""

    address: str
    token: str

    async def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer's JSON; None while slurmrestd does not answer, or has no connection to slurmctld."""
        headers = {"X-SLURM-USER-TOKEN": self.token}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=20)) as http:
            try:
                async with http.request(method, f"http://{self.address}:6820/{path}", json=body) as answer:
                    return await answer.json(content_type=None) if answer.status == 200 else None
            except (aiohttp.ClientError, TimeoutError):
                return None

    async def submit(self, script: str, *, hold: bool = False) -> int:
        """Submit a job of one CPU and 100 MiB that writes to `<job>.out` in the shared folder; returns its id."""
        job = {
            "name": "neighbour",
            "current_working_directory": "/mnt/efs",
            "standard_output": "/mnt/efs/%j.out",
            "environment": ["PATH=/usr/bin:/bin"],
            "partition": "main",
            "cpus_per_task": 1,
            "memory_per_node": {"set": True, "number": 100},
            "hold": hold,
        }
        body = {"script": f"#!/bin/bash\n{script}\n", "job": job}
        answer = await self.call("POST", f"slurm/{API}/job/submit", body)
        assert answer is not None, "slurmrestd refused the job"
        return int(answer["job_id"])
