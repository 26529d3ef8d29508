"""Jobs on two workers of the image slurmd-software, which have addresses of their own as pods have."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from clusterra_lab.machine.container import engine_answers
from worker_containers import POD, docker, image, key, running, worker
from worker_site import ALICE, SCRIPTS, Site, worker_site

pytestmark = [pytest.mark.containers, pytest.mark.slurm]

TARGET = "slurmd-software"
WORKERS = ("box1", "box2")
MEMORY_MIB = 1500
USER_NAMESPACES = "--security-opt=seccomp=unconfined"
"""What the component k8s/edge/user-namespaces is for a pod."""
SUM = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  printf("rank %d of %d on %s\\n", rank, size, getenv("SLURMD_NODENAME"));
  if (rank == 0) printf("sum %d\\n", sum);
  return MPI_Finalize();
}
"""
ROOT = """
mkdir -p root/bin
cp -L /bin/dash root/bin/sh
echo inside >root/marker
for file in $(ldd /bin/dash | grep --only-matching "/[^ ]*"); do cp -L --parents "$file" root; done
"""
"""Makes a root file system with a shell and what that needs."""


@asynccontextmanager
async def bridge() -> AsyncIterator[tuple[str, str]]:
    """A network of the engine until the block ends: its name, and this machine's address in it."""
    name = f"clusterra-software-{os.getpid()}"
    made = await docker("network", "create", name)
    assert made.returncode == 0, made.stdout
    try:
        found = await docker("network", "inspect", "--format={{(index .IPAM.Config 0).Gateway}}", name)
        yield name, found.stdout.strip()
    finally:
        await docker("network", "rm", name)


@pytest.fixture(scope="module")
async def built() -> str:
    """The image's name."""
    if not await engine_answers() or shutil.which("docker") is None:
        pytest.skip("no container engine answers, or there is no command 'docker' for it")
    made = await docker("build", "--target", TARGET, "--tag", image(TARGET), str(SCRIPTS))
    assert made.returncode == 0, made.stdout[-4000:]
    return image(TARGET)


@pytest.fixture(scope="module")
async def site(built: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A cluster with two such workers."""
    if os.geteuid() != 0:
        pytest.skip("Slurm's namespaces can only be made by root")
    folder = tmp_path_factory.mktemp("software")
    async with AsyncExitStack() as opened:
        network, address = await opened.enter_async_context(bridge())
        site = await opened.enter_async_context(worker_site(folder / "slurm", address=address))
        volumes = [
            f"--volume={key(site, folder / 'key', 0)}:/etc/slurm:ro",
            f"--volume={site.cluster.shared_dir}:/mnt/efs",
        ]
        options = [*POD, USER_NAMESPACES, f"--network={network}", *volumes]
        for name in WORKERS:
            described = [f"--hostname={name}", *worker(name, site, memory_mib=MEMORY_MIB)]
            await opened.enter_async_context(running(TARGET, *options, *described))
        for name in WORKERS:
            await site.registered(name)
        yield site


async def completed(site: Site, script: str, *args: str) -> str:
    """The output of a job that has completed."""
    job_id = await site.submit(
        ALICE, f"set -e\nexport HOME=/mnt/efs/home/alice\ncd $HOME\n{script}", "--mem=1200", *args
    )
    await site.in_state(job_id, "COMPLETED", "FAILED")
    said = site.output(job_id)
    assert await site.state(job_id) == "COMPLETED", said
    return said


@pytest.mark.parametrize(
    ("compiler", "start"), [("mpicc.mpich", "srun --mpi=pmi2"), ("mpicc.openmpi", "mpirun")], ids=["mpich", "openmpi"]
)
async def test_ranks_on_two_workers_find_each_other(site: Site, compiler: str, start: str) -> None:
    (site.cluster.shared_dir / "sum.c").write_text(SUM)

    said = await completed(
        site, f"{compiler} -o {compiler} /mnt/efs/sum.c\n{start} ./{compiler}", "--nodes=2", "--ntasks-per-node=2"
    )

    ranks = [f"rank {rank} of 4 on {name}" for rank, name in enumerate(("box1", "box1", "box2", "box2"))]
    assert sorted(said.splitlines()) == [*ranks, "sum 6"]


async def test_apptainer_runs_a_folder_and_an_unpacked_sif_in_a_worker_with_user_namespaces(site: Site) -> None:
    said = await completed(
        site,
        f"""
        {ROOT}
        run() {{ apptainer --quiet exec "$1" /bin/sh -c 'read line </marker; echo "$line $SLURM_JOB_ID"' 2>>errors; }}
        run root
        apptainer --quiet build --force in.sif root 2>>errors
        part=$(apptainer sif list in.sif | awk -F '|' '/Squashfs/ {{ print $1 + 0 }}')
        apptainer sif dump "$part" in.sif >in.squashfs
        unsquashfs -quiet -no-progress -force -dest unpacked in.squashfs >/dev/null
        run unpacked
        """,
    )

    first, second = (line.split() for line in said.splitlines())
    assert first == second
    assert first[0] == "inside"
    assert first[1].isdigit()


async def test_without_user_namespaces_apptainer_says_why_it_cannot_run(built: str) -> None:
    script = f"cd /tmp\n{ROOT}\napptainer exec root /bin/sh -c :"

    done = await docker("run", "--rm", *POD, "--user=65534:65534", "--entrypoint=bash", built, "-c", script)

    assert done.returncode != 0
    assert "not allowed to create user namespace" in done.stdout


async def test_scripts_have_the_command_module(site: Site) -> None:
    tree = site.cluster.shared_dir / "modules" / "greeting"
    tree.mkdir(parents=True)
    (tree / "1.0.lua").write_text('setenv("GREETING", "hello")\n')

    said = await completed(site, 'module load greeting\necho "$GREETING ${BASH_ENV-unset}"')

    assert said == "hello unset\n"
