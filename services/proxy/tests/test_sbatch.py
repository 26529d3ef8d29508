"""The proxy's translation of a script creates the same job as the real sbatch."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_proxy.requests.sbatch_fields import sbatch_fields
from clusterra_proxy.slurmrestd.versions import VERSIONS
from clusterra_sbatch.applying import apply
from clusterra_sbatch.options import LONG
from clusterra_sbatch.problems import InvalidScript
from slurm_world import SlurmWorld

DOCUMENT = Path(__file__).parents[3] / "docs/concepts/sbatch-options.md"
LINES = (
    "",
    "-n 4",
    "-N 2",
    "-N 1-2 -n 4",
    "-n 2 -c 2",
    "--mem=500",
    "--mem 1G",
    "--mem=0",
    "--mem-per-cpu=200M",
    "-t 30",
    "-t 1:30",
    "-t 2-3:30",
    "-t 1:2:3",
    "--time-min=10 -t 20",
    "--gres=gpu:h100:2",
    "-G 2",
    "--gpus-per-node=h100:1",
    "--gpus-per-task=1 -n 2",
    '-C "general&memory"',
    "-a 0-9%3",
    "-d singleton",
    "--exclusive",
    "--exclusive=user",
    "-s",
    "-x w1",
    "-w w2",
    "--nice",
    "--nice=5",
    "--no-requeue",
    "--ntasks-per-node=2 -N 2",
    "--threads-per-core=1",
    "-k",
    "-J two\\ words # and a remark",
    "-J name#remark",
    "-p main -A lab -q normal --wckey=k",
    "-D /tmp -e err.%j",
    "--hint=nomultithread -n 2",
    "--hint=compute_bound -c 2",
    "--hint=multithread",
    "-m cyclic:block -n 2",
    "-m plane=2 -n 4",
    "--signal=B:USR1@30",
    "-G 1 --cpus-per-gpu=2 --mem-per-gpu=300M",
    "--kill-on-invalid-dep=yes",
    "--comment=mine --mail-type=END --mail-user=ada@example.org",
    "--mail-type=ALL",
    "--mail-type=begin,TIME_LIMIT,TIME_LIMIT_90,ARRAY_TASKS,unknown",
    "--mail-type=END,NONE,FAIL",
    "--open-mode=append --tmp=1G",
    "--mincpus=2 -n 2",
    "--contiguous -N 2",
    "-O -n 3",
    "--spread-job -n 2",
    "--use-min-nodes -N 1-2 -n 2",
    "--prefer=general",
    "--ntasks-per-core=1 -n 2",
    "--ntasks-per-socket=2 -n 2",
    "--sockets-per-node=1",
    "--ntasks-per-gpu=1 -n 2",
    "--gres-flags=enforce-binding -G 1",
    "--gres-flags=disable-binding -G 1",
    "--oom-kill-step=0",
    "--oom-kill-step",
    "--mem-bind=local --ignore-pbs",
    "--time=UNLIMITED",
    "--time=0",
    "--partition= --dependency= --licenses= --wckey= --reservation=",
    "--begin=16:00",
    "--begin=12/31/49",
    "-N 4 -n 2",
    "-N 1-4 -n 2",
    "-N 1,2",
    "-N 1-3:2",
    "-N -2",
    "-N 2 --sockets-per-node=1 --threads-per-core=1",
    "-n 4 --ntasks-per-node=2",
    "--tasks-per-node=2 -N 2",
    "--exclusive=oversubscribe",
    "--switches=1@5",
    "--wait-all-nodes=1",
    "-w w1,w2",
    "-m *:block -n 2",
    "-N 1 -n 4 -c 2",
    "-N 1 -n 4",
    "-N 1 --ntasks-per-node=3",
    "-N 1 --ntasks-per-node=2 -c 2",
    "-N 1 -O -n 3 -c 2",
    "-N 1-2 --ntasks-per-node=2 -c 2",
    "-N 1-2 --ntasks-per-node=2 -c 3",
    "-N 2-4:2 -c 2",
    "-N 2-3 --ntasks-per-node=2 -c 2",
    "-N 2 -c 2",
    "-N 1 --mincpus=3 -n 2",
    "-N 1 --ntasks-per-gpu=2 -G 1 -c 2",
    "-O -n 4 --ntasks-per-node=2",
    "-w w1,w2 -c 2",
    "-w w1,w2 -O -n 4",
    "-w w1 -n 2 -c 2",
    "-n 2\n#PBS -l nodes=2:ppn=2,walltime=5",
    "-n 2\n#BSUB -n 3 -M 2048 -W 7",
)
DIFFERENT = {
    # Specific to each job.
    *("job_id", "array_job_id", "step_id", "submit_time", "accrue_time", "eligible_time", "last_sched_evaluation"),
    *("name", "comment", "command", "submit_line", "allocating_node", "mail_user", "state_reason", "state_description"),
    *("standard_output", "stdout_expanded", "stdin_expanded", "stderr_expanded", "current_working_directory"),
    # sbatch sets /dev/null and full paths where slurmrestd leaves the default to slurmd.
    *("standard_input", "standard_error"),
    # sbatch's notation of the request; its effects (cpus, tres_req_str) are compared.
    *("flags", "tres_per_task", "tres_bind"),
}


async def job_record(slurm: SlurmWorld, http: aiohttp.ClientSession, job_id: str) -> dict[str, Any]:
    """What slurmctld has of a job; a busy one is asked again: slurmrestd then gives two answers to one request."""
    path = f"{slurm.cluster.slurmrestd_url}{VERSIONS[0].slurm(f'job/{job_id}')}"

    async def read() -> list[dict[str, Any]]:
        try:
            async with http.get(path, headers={"X-SLURM-USER-TOKEN": slurm.token(slurm.operator)}) as answer:
                jobs: list[dict[str, Any]] = json.loads(await answer.read())["jobs"]
        except aiohttp.ClientError:
            return []
        return jobs

    (job,) = await until(read, seconds=90, what=f"the record of job {job_id}", every=0.5)
    return {name: value for name, value in job.items() if name not in DIFFERENT}


async def test_directives_create_the_same_job_as_sbatch(slurm: SlurmWorld, workers: None, alice: SlurmUser) -> None:
    slots = asyncio.Semaphore(4)
    token = slurm.token(alice)
    async with slurm.slurmctld() as slurmctld, aiohttp.ClientSession() as http:

        async def compare(line: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
            script = f"#!/bin/sh\n#SBATCH {line}\ntrue\n"
            applied = apply(script, JobDescription(environment=("PATH=/usr/bin:/bin",), hold=True), now=now())
            job = {"current_working_directory": slurm.shared_path} | sbatch_fields(applied)
            submitted = await slurmctld.submit(token, script, job)
            async with slots:
                sbatch_id = await slurm.cluster.sbatch(alice, script, "--hold")
            by_proxy = await job_record(slurm, http, str(submitted.job_id))
            by_sbatch = await job_record(slurm, http, sbatch_id)
            return line, by_proxy, by_sbatch

        compared = await asyncio.gather(*map(compare, LINES))
        await slurm.cluster.run("scancel", f"--user={alice.uid}")
    different = {
        line: {name: (value, by_sbatch.get(name)) for name, value in by_proxy.items() if value != by_sbatch.get(name)}
        for line, by_proxy, by_sbatch in compared
    }

    assert {line: fields for line, fields in different.items() if fields} == {}


async def test_every_option_of_sbatch_is_known_and_documented(slurm: SlurmWorld, alice: SlurmUser) -> None:
    with pytest.raises(CommandFailed) as ambiguous:
        # All names begin so, and getopt lists them.
        await slurm.cluster.sbatch(alice, "#!/bin/sh\n#SBATCH --=1\n")

    options = set(re.findall(r"'--([a-z0-9-]+)'", str(ambiguous.value)))
    assert len(options) > 100
    assert options - LONG.keys() == set()
    names = set(re.findall(r"`([a-z][a-z-]+)`", DOCUMENT.read_text().partition("## Options")[2]))
    assert names == set(LONG)


@pytest.mark.parametrize(
    "line",
    [
        "--mem=1.5G",
        "-n 0",
        "-n 2k",
        "--par=main",
        "stray",
        "--frobnicate",
        '-J ""',
        "--gres=gpu:1 --gpus-per-node=2",
        "--signal=NOSIG@10",
        "--signal=0",
        "--hint=fast",
        "--mem=1G --mem-per-cpu=1G",
        "--mem=1G --mem-per-gpu=1G -G 1",
        "-c 2 --cpus-per-gpu=2 -G 1",
        "--kill-on-invalid-dep=y",
        "--mail-type=unknown",
        '--mail-type=""',
        "-N 4-1",
        "-m diagonal",
        "--time=1:2:",
        "--begin=12/31/2049",
        "--exclusive -s",
        "\u00a0-n 2",
        "-n 2\n#BSUB -R x",
    ],
)
async def test_what_sbatch_rejects_is_rejected(slurm: SlurmWorld, workers: None, alice: SlurmUser, line: str) -> None:
    script = f"#!/bin/sh\n#SBATCH {line}\ntrue\n"
    with pytest.raises(CommandFailed):
        await slurm.cluster.sbatch(alice, script, "--hold")
    with pytest.raises(InvalidScript):
        apply(script, JobDescription(environment=("PATH=/usr/bin:/bin",)), now=now())
