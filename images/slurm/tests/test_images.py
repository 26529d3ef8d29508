"""The images, built and run by a container engine like in a pod: read-only, with only a worker's capabilities."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.process import until
from clusterra_lab.slurm import config
from worker_containers import WORKER, docker, image, key, running, worker
from worker_pod import PRIVATE_TMP
from worker_site import ALICE, SCRIPTS, SECONDS, Site, worker_site

pytestmark = pytest.mark.containers

SLURM_UID = 64030
VERSIONS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "slurmrestd": "slurmrestd", "login": "scontrol"}
"""Target -> program that prints its version; slurmdbd and sackd cannot do so without a configuration."""
USERS = {"slurmctld": SLURM_UID, "slurmdbd": SLURM_UID, "slurmrestd": 64101, "slurmd": 0, "login": SLURM_UID}
WORKER_CGROUP = "/usr/lib/clusterra/worker-cgroup"
NOT_HERE = 78
"""Exit code of worker-cgroup where there are no cgroups that it may divide."""


@pytest.fixture(scope="module")
async def images() -> None:
    if not await engine_answers() or shutil.which("docker") is None:
        pytest.skip("no container engine answers, or there is no command 'docker' for it")
    for target in USERS:
        built = await docker("build", "--target", target, "--tag", image(target), str(SCRIPTS))
        assert built.returncode == 0, built.stdout[-4000:]


@pytest.fixture(scope="module")
async def site(images: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("Slurm's namespaces can only be made by root")
    async with worker_site(tmp_path_factory.mktemp("images")) as site:
        yield site


@pytest.mark.parametrize("target", USERS)
@pytest.mark.usefixtures("images")
async def test_each_image_runs_as_its_user_and_has_no_configuration_and_no_key(target: str) -> None:
    script = "id --user; find / -xdev -name '*.key' -o -xdev -path '/etc/slurm/*'; touch /x && echo writable"
    done = await docker(
        "run", "--rm", "--read-only", "--entrypoint=sh", image(target), "-c", f"exec 2>/dev/null; {script}"
    )
    assert done.stdout.split() == [str(USERS[target])]


@pytest.mark.parametrize("target", VERSIONS)
@pytest.mark.usefixtures("images")
async def test_each_image_has_its_program_of_slurm_26_05(target: str, tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=any\nSlurmctldHost=localhost\n")
    tmp_path.chmod(0o755)
    options = ["--rm", "--read-only", f"--volume={tmp_path}:/etc/slurm:ro", f"--entrypoint={VERSIONS[target]}"]
    done = await docker("run", *options, image(target), "-V")
    assert done.stdout.startswith("slurm-wlm 26.05."), done.stdout


@pytest.mark.usefixtures("images")
async def test_slurmdbd_starts_and_tries_its_database(tmp_path: Path) -> None:
    conf = tmp_path / "slurmdbd.conf"
    storage = "StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort=1\n"
    conf.write_text(f"DbdHost=localhost\nSlurmUser=slurm\nAuthType=auth/slurm\n{storage}")
    (tmp_path / "slurm.key").write_bytes(os.urandom(1024))
    for file in tmp_path.iterdir():
        file.chmod(0o600)
        os.chown(file, SLURM_UID, SLURM_UID)
    tmp_path.chmod(0o755)
    options = ["--read-only", f"--volume={tmp_path}:/etc/slurm:ro", "--tmpfs=/tmp", "--network=host"]
    options.append(f"--tmpfs=/run/slurmdbd:uid={SLURM_UID}")
    async with running("slurmdbd", *options) as container:

        async def tried() -> bool:
            return "mysql_real_connect failed" in (await docker("logs", container)).stdout

        await until(tried, seconds=SECONDS, what="slurmdbd to try its database")


async def test_a_worker_in_a_container_runs_a_job_and_stops_when_idle(site: Site, tmp_path: Path) -> None:
    volumes = [
        f"--volume={key(site, tmp_path / 'key', 0)}:/etc/slurm:ro",
        f"--volume={site.cluster.shared_dir}:/mnt/efs",
    ]
    async with running("slurmd", *WORKER, *volumes, *worker("boxed", site)) as container:
        await site.registered("boxed")
        job_id = await site.submit(
            ALICE, 'id --user; echo "$TMPDIR"; touch "$TMPDIR/a" "/tmp/b c"', "--constraint=compute-xs"
        )

        await site.in_state(job_id, "COMPLETED")

        assert site.output(job_id).split() == ["5001", f"/tmp/job-{job_id}"]
        assert (await docker("exec", container, "ls", "/tmp")).stdout == ""

        stopped = await docker("exec", container, "/usr/lib/clusterra/slurmd-pre-stop")
        assert (stopped.returncode, stopped.stdout) == (0, "")
        assert await site.node("boxed") == ("", "")

        await docker("stop", "--timeout=30", container)
        ended = await docker("inspect", "--format={{.State.ExitCode}}", container)

        assert ended.stdout.strip() in ("0", "143")


async def test_a_worker_in_a_container_gives_each_job_its_own_tmp_and_memory(
    images: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if os.geteuid() != 0:
        pytest.skip("Slurm's namespaces can only be made by root")
    folder = tmp_path_factory.mktemp("private-tmp")
    async with worker_site(folder / "slurm", isolation="cgroups", private_tmp=True) as site:
        volumes = [
            f"--volume={key(site, folder / 'key', 0)}:/etc/slurm:ro",
            f"--volume={site.cluster.shared_dir}:/mnt/efs",
        ]
        rights = [f"--cap-add={each.upper()}" for each in PRIVATE_TMP.split()]
        options = [*WORKER, *rights, "--security-opt=apparmor=unconfined"]
        settings = ["--env=CLUSTERRA_PRIVATE_TMP=yes", "--env=CLUSTERRA_CGROUPS=yes"]
        probe = ["run", "--rm", *options, f"--entrypoint={WORKER_CGROUP}", image("slurmd")]
        if (await docker(*probe, "probe", "true")).returncode == NOT_HERE:
            pytest.skip("containers here have no cgroups that slurmd may divide")
        async with running("slurmd", *options, *settings, *volumes, *worker("own-tmp", site)) as container:
            await site.registered("own-tmp")
            job_id = await site.submit(ALICE, 'echo "$TMPDIR"; mkdir -m 0 /tmp/a /var/tmp/b; ls /tmp /var/tmp')

            await site.in_state(job_id, "COMPLETED")
            await site.idle("own-tmp")

            assert site.output(job_id) == "/tmp\n/tmp:\na\n\n/var/tmp:\nb\n"
            assert (await docker("exec", container, "find", "/tmp", "-mindepth", "3")).stdout == ""

            large = await site.submit(ALICE, "taken=$(head --bytes=300000000 /dev/zero | tr '\\0' x); echo survived")

            await site.in_state(large, "OUT_OF_MEMORY")
            assert "survived" not in site.output(large)


async def test_a_container_with_less_memory_than_its_shape_does_not_register(site: Site) -> None:
    environment = worker("little", site, memory_mib=65)
    done = await docker("run", "--rm", "--memory=64m", *WORKER, *environment, image("slurmd"))
    assert done.returncode == 78
    assert '"actual": {"cpus": ' in done.stdout
    assert '"memory_mib": 64,' in done.stdout
    assert await site.node("little") == ("", "")


async def test_users_of_the_login_image_reach_slurm_without_reading_the_key(site: Site, tmp_path: Path) -> None:
    volume = f"--volume={key(site, tmp_path / 'key', SLURM_UID)}:/etc/slurm:ro"
    options = ["--read-only", "--cap-drop=ALL", "--network=host", f"--tmpfs=/run/slurm:uid={SLURM_UID}", volume]
    # PluginDir of the lab's slurm.conf names this folder; Slurm's commands refuse a folder that is missing.
    options += [f"--tmpfs={config.SCRIPTS}"]
    server = f"127.0.0.1:{site.cluster.slurmctld_port}"
    async with running("login", *options, command=("--conf-server", server)) as container:
        token = site.cluster.token(ALICE.name, ALICE.uid, ALICE.gid)
        as_alice = ["exec", f"--user={ALICE.uid}:{ALICE.gid}", f"--env=SLURM_JWT={token}", container]

        async def answered() -> bool:
            return (await docker(*as_alice, "scontrol", "ping")).returncode == 0

        await until(answered, seconds=SECONDS, what="sackd to have the configuration")
        assert (await docker(*as_alice, "squeue", "--noheader", "--me")).returncode == 0

        key_read = await docker(*as_alice, "cat", "/etc/slurm/slurm.key")
        assert "Permission denied" in key_read.stdout
