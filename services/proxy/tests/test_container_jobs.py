"""Jobs with `--container`: their script runs in an OCI bundle, by crun, as the job's user."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import Submitted
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.config import ClusterOptions
from proxy_world import ProxyWorld, proxy_world, submission
from slurm_world import SlurmWorld, slurm_world

PROGRAMS = ("sh", "cat", "id", "ls", "sleep", "touch", "env")
FOLDERS = ("bin", "dev", "proc", "shared", "tmp", "var")
SECONDS = 60.0


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProxyWorld]:
    """A cluster whose workers have a container runtime."""
    directory = tmp_path_factory.mktemp("containers")
    async with (
        slurm_world(directory, ClusterOptions(containers=True)) as slurm,
        proxy_world(slurm, directory, containers=True) as world,
        slurm.worker("w1"),
    ):
        yield world


async def make_bundle(slurm: SlurmWorld, user: SlurmUser, name: str) -> str:
    """Make a bundle of this user with busybox alone in it, and return its path in jobs."""
    bundle = slurm.shared / name
    root = bundle / "rootfs"
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    copied = await slurm.cluster.run("cp", "/usr/bin/busybox", f"{slurm.shared_path}/{name}/rootfs/bin/busybox")
    assert copied.returncode == 0, copied
    for program in PROGRAMS:
        (root / "bin" / program).symlink_to("busybox")
    (root / "marker").write_text("inside\n")
    (bundle / "config.json").write_text(json.dumps(config(user, slurm.shared_path)))
    for path in (bundle, *bundle.rglob("*")):
        os.lchown(path, user.uid, user.gid)
    return f"{slurm.shared_path}/{name}"


def config(user: SlurmUser, shared_path: str) -> dict[str, object]:
    """A runtime configuration for a user who is root in the container alone."""
    one = {"containerID": 0, "size": 1}
    return {
        "ociVersion": "1.0.0",
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/bin/sh"], "env": ["PATH=/bin"], "cwd": "/"},
        "root": {"path": "rootfs"},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/shared", "type": "bind", "source": shared_path, "options": ["rbind", "rw"]},
        ],
        "linux": {
            "namespaces": [{"type": name} for name in ("pid", "ipc", "uts", "mount", "user")],
            "uidMappings": [one | {"hostID": user.uid}],
            "gidMappings": [one | {"hostID": user.gid}],
        },
    }


def output(world: ProxyWorld, submitted: Submitted) -> list[str]:
    return (world.slurm.shared / f"job_{submitted.job_id}.out").read_text().splitlines()


SCRIPT = """#!/bin/sh
{line}
cat /marker
echo "uid=$(id -u) job=$SLURM_JOB_ID mine=$MINE"
ls -A /shared/home >/dev/null && touch /shared/{name}-was-here
"""


@pytest.mark.parametrize("way", ["directive", "field"])
async def test_a_script_runs_in_the_bundle_that_the_script_or_the_request_names(world: ProxyWorld, way: str) -> None:
    user = world.slurm.new_user()
    bundle = await make_bundle(world.slurm, user, f"bundle-{way}")
    (world.slurm.shared / "home").mkdir(exist_ok=True)
    script = SCRIPT.format(line=f"#SBATCH --container={bundle}" if way == "directive" else "", name=way)
    request = submission(user, script, environment=("PATH=/bin", "MINE=1"))
    if way == "field":
        request = request.model_copy(update={"further": FurtherFields(container=bundle)})

    submitted = await world.call("submit", request, Submitted)

    job = await world.wait_for_end(user, submitted.job_id, seconds=SECONDS)
    assert (job.state, output(world, submitted)) == (
        "COMPLETED",
        ["inside", f"uid=0 job={submitted.job_id} mine=1"],
    )
    written = world.slurm.shared / f"{way}-was-here"
    assert written.stat().st_uid == user.uid
    assert list((world.slurm.cluster.spool_dir / "w1").glob("oci-job*")) == []


async def test_the_exit_code_of_a_contained_script_is_the_jobs(world: ProxyWorld) -> None:
    user = world.slurm.new_user()
    bundle = await make_bundle(world.slurm, user, "bundle-failing")

    submitted = await world.submit(user, f"#!/bin/sh\n#SBATCH --container={bundle}\nexit 7\n")

    job = await world.wait_for_end(user, submitted.job_id, seconds=SECONDS)
    assert (job.state, job.exit_code) == ("FAILED", 7)


async def test_a_cancelled_job_leaves_no_container(world: ProxyWorld) -> None:
    user = world.slurm.new_user()
    bundle = await make_bundle(world.slurm, user, "bundle-cancelled")
    script = f"#!/bin/sh\n#SBATCH --container={bundle}\ntouch /shared/cancelled-began\nsleep 5000\n"
    submitted = await world.submit(user, script)
    began = world.slurm.shared / "cancelled-began"
    await until(began.exists, seconds=SECONDS, what="the contained script", every=0.1)

    await world.cancel(user, submitted.job_id)

    assert (await world.wait_for_end(user, submitted.job_id, seconds=SECONDS)).state == "CANCELLED"
    await until(
        lambda: not processes_of(user) and not list((world.slurm.cluster.spool_dir / "w1").glob("oci-job*")),
        seconds=SECONDS,
        what="the end of the container",
        every=0.1,
    )


def processes_of(user: SlurmUser) -> list[str]:
    """The processes of a user on this machine."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == user.uid:
                found.append((process / "cmdline").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


async def test_a_job_whose_bundle_does_not_exist_is_held_and_drains_no_worker(world: ProxyWorld) -> None:
    user = world.slurm.new_user()

    submitted = await world.submit(user, "#!/bin/sh\n#SBATCH --container=/mnt/efs/nowhere\ntrue\n")

    async def held() -> bool:
        return (await world.job(user, submitted.job_id)).reason == "JobHoldMaxRequeue"

    await until(held, seconds=SECONDS, what="the job to be held", every=0.2)

    async def idle() -> bool:
        states = (await world.slurm.cluster.run("sinfo", "--noheader", "--nodes=w1", "--format=%T")).stdout
        return states.strip() == "idle"

    await until(idle, seconds=SECONDS, what="the worker to be idle again", every=0.2)
    await world.cancel(user, submitted.job_id)


@pytest.mark.parametrize("line", ["#SBATCH --container=/mnt/efs/bundle", ""])
async def test_a_cluster_without_a_runtime_refuses_a_container(proxy: ProxyWorld, alice: SlurmUser, line: str) -> None:
    request = submission(alice, f"#!/bin/sh\n{line}\ntrue\n")
    if not line:
        request = request.model_copy(update={"further": FurtherFields(container="/mnt/efs/bundle")})

    error = await proxy.error_of("submit", request)

    assert (error.kind, error.detail) == (
        "rejected",
        "container: the cluster's workers have no container runtime for Slurm",
    )


async def test_a_container_is_named_by_its_absolute_path(world: ProxyWorld) -> None:
    request = submission(world.slurm.new_user())
    request = request.model_copy(update={"further": FurtherFields(container="bundle")})

    error = await world.error_of("submit", request)

    assert (error.kind, error.detail) == ("invalid", "container: it is no absolute path")
