"""The class that job_submit.lua gives to each job, on real Slurm."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from functools import reduce

import pytest
from clusterra_contracts.node_extra import job_class
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.config import JOB_SUBMIT
from clusterra_lab.slurm.control_plane import CommandFailed, OwnedSlurmCluster, slurm_cluster
from worker_site import ALICE, BOB, SCRIPTS, SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")

MINE = "open=1|u5001.c1.n1=1"


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OwnedSlurmCluster]:
    """A cluster with three placeholders and without nodes."""
    async with slurm_cluster(tmp_path_factory.mktemp("classes")) as cluster:
        for number in range(3):
            name, gpus = f"large-{number}", ("gres=gpu:2",)
            await cluster.admit(name, cpus=16, memory_mib=65536, features=("compute", "memory"))
            assert (await cluster.run("scontrol", "update", f"nodename={name}", *gpus)).returncode == 0
        yield cluster


COUNTED = """
for _, bytes in ipairs({ 4096, 10000000, 10000001 }) do
  local job = { user_name = "alice", user_id = 5001, het_job_offset = slurm.NO_VAL, features = ("a"):rep(bytes) }
  local steps = 0
  debug.sethook(function() steps = steps + 1 end, "", 1000)
  slurm_job_submit(job, {}, 5001)
  debug.sethook()
  slurm.log_info("counted %d %s", steps, job.extra)
end
"""
"""Tells thousands of instructions and the expressions of jobs with a constraint of so many bytes."""


def checksum(text: str) -> str:
    """The hash of an option that restricts the nodes."""
    return f"{reduce(lambda known, byte: (known * 31 + byte) % 2**32, text.encode(), 0):08x}"


async def extra(cluster: OwnedSlurmCluster, job_id: str) -> str:
    shown = await cluster.run("scontrol", "show", "job", job_id)
    found = re.search(r"^ *Extra=(.*)$", shown.stdout, re.MULTILINE)
    return found[1] if found else ""


async def expression_of(cluster: OwnedSlurmCluster, *options: str, script: str = "#!/bin/sh\ntrue\n") -> str:
    """Submit a job with these options, and return its expression."""
    job_id = await cluster.sbatch(ALICE, script, *options)
    expression = await extra(cluster, job_id)
    await cluster.run("scancel", job_id)
    return expression


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("", "c1.n1"),
        ("--time=60", "t12.c1.n1"),
        ("--time=80", "t12.c1.n1"),
        ("--time=90", "t12.c1.n1"),
        ("--time=100", "t13.c1.n1"),
        ("--cpus-per-task=4 --mem=8G", "c4.m8.n1"),
        ("--cpus-per-task=4 --mem=8193", "c4.m9.n1"),
        ("--mem=0", "c1.m0.n1"),
        ("--ntasks=3 --cpus-per-task=4 --mem-per-cpu=3000", "c12.m36.n1"),
        ("--nodes=1 --ntasks=4 --mem=2G", "c4.m2.n1"),
        ("--nodes=1 --ntasks-per-node=3", "c3.n1"),
        ("--mincpus=3", "c3.n1"),
        ("--array=0-9%2", "c1.n1"),
    ],
)
async def test_a_class_has_the_requested_resources(cluster: OwnedSlurmCluster, options: str, parts: str) -> None:
    assert await expression_of(cluster, *options.split()) == f"open=1|u5001.{parts}=1"


async def test_other_options_that_restrict_the_nodes_make_another_class(cluster: OwnedSlurmCluster) -> None:
    options = ("--cpus-per-task=1", "--constraint=memory", "--constraint=compute", "--exclusive", "--partition=main")
    classes = [job_class(await expression_of(cluster, option)) for option in options]
    assert classes[0] == "u5001.c1.n1"
    assert len(set(classes)) == len(options)
    assert job_class(await expression_of(cluster, "--constraint=memory")) == classes[1]


async def test_a_constraint_of_any_length_takes_slurmctld_little_work(cluster: OwnedSlurmCluster) -> None:
    """Slurm rejects a long one, but only after the script."""
    script = (SCRIPTS / JOB_SUBMIT).read_text()
    installed = cluster.log_dir.parent / "etc" / JOB_SUBMIT

    async def told() -> list[tuple[str, str]]:
        installed.write_text(script + COUNTED)
        await expression_of(cluster)
        return re.findall(r"counted (\d+) (\S+)", (cluster.log_dir / "slurmctld.log").read_text())[:3]

    (_, known), (steps, first), (_, second) = await until(told, seconds=SECONDS, what="the counts", every=0.2)

    assert job_class(known) == f"u5001.c1.n1.x{checksum('features=' + 'a' * 4096)}"
    assert int(steps) < 1000
    assert job_class(first) != job_class(second)
    installed.write_text(script)


async def test_an_allocation_has_a_class(cluster: OwnedSlurmCluster) -> None:
    token = cluster.token(BOB.name, BOB.uid, BOB.gid)
    ids = (f"--reuid={BOB.uid}", f"--regid={BOB.gid}", "--clear-groups")
    salloc = ("salloc", "--no-shell", "--job-name=shell", "--cpus-per-task=2")
    asking = asyncio.create_task(cluster.run("setpriv", *ids, *salloc, env={"SLURM_JWT": token}))

    async def queued() -> str:
        return (await cluster.run("squeue", "--noheader", "--name=shell", "--format=%i")).stdout.strip()

    job_id = await until(queued, seconds=SECONDS, what="the allocation to be queued", every=0.05)

    assert await extra(cluster, job_id) == "open=1|u5002.c2.n1=1"

    await cluster.run("scancel", job_id)
    await asking


async def test_jobs_with_their_own_expression_have_no_class(cluster: OwnedSlurmCluster) -> None:
    assert await expression_of(cluster, "--extra=rack=7|(rack=8&disk>=1)") == "rack=7|(rack=8&disk>=1)"
    with pytest.raises(CommandFailed, match="Invalid extra constraints"):
        await expression_of(cluster, "--extra=rack")


async def test_jobs_that_name_nodes_have_no_class(cluster: OwnedSlurmCluster) -> None:
    assert await expression_of(cluster, "--nodelist=large-1") == ""


@pytest.mark.parametrize(
    "options",
    ["--nodes=2", "--gres=gpu:1", "--gpus=1", "--ntasks=1 --gpus-per-task=1", "--ntasks-per-gpu=2 --ntasks=2"],
)
async def test_jobs_of_several_nodes_and_with_gpus_have_no_class(cluster: OwnedSlurmCluster, options: str) -> None:
    assert await expression_of(cluster, *options.split()) == ""


@pytest.mark.parametrize(
    "options", ["--cpus-per-task=17", "--nodes=1 --ntasks=17", "--mem=65537", "--nodes=4", "--gres=gpu:3"]
)
async def test_slurm_rejects_jobs_that_no_node_could_run_at_submit(cluster: OwnedSlurmCluster, options: str) -> None:
    with pytest.raises(CommandFailed):
        await expression_of(cluster, *options.split())


async def test_heterogeneous_jobs_have_no_class(cluster: OwnedSlurmCluster) -> None:
    script = "#!/bin/sh\n#SBATCH --ntasks=1\n#SBATCH hetjob\n#SBATCH --ntasks=2\ntrue\n"
    assert await expression_of(cluster, script=script) == ""


async def test_a_changed_job_keeps_its_class(cluster: OwnedSlurmCluster) -> None:
    job_id = await cluster.sbatch(ALICE, "#!/bin/sh\ntrue\n", "--hold")
    for change, expression in (
        ("TimeLimit=30", MINE),
        ("Extra=rack=8", f"(rack=8)&({MINE})"),
        ("Extra=", MINE),
        (f"Extra=(rack=9)&({MINE})", f"(rack=9)&({MINE})"),
    ):
        changed = await cluster.run("scontrol", "update", f"job={job_id}", change)
        assert changed.returncode == 0, changed.stderr
        assert await extra(cluster, job_id) == expression
    await cluster.run("scancel", job_id)


async def test_an_error_in_the_script_leaves_a_job_unchanged(cluster: OwnedSlurmCluster) -> None:
    script = (SCRIPTS / JOB_SUBMIT).read_text()
    begin = "local function class(job)\n"

    assert begin in script

    installed = cluster.log_dir.parent / "etc" / JOB_SUBMIT
    broken = script.replace(begin, begin + "  local none = nil + 1\n")

    async def has(text: str, expression: str) -> bool:
        # slurmctld compares whole seconds: it does not reread a file that changes within the second of the last read.
        installed.write_text(text)
        return await expression_of(cluster) == expression

    await until(lambda: has(broken, ""), seconds=SECONDS, what="jobs without a class", every=0.2)

    log = (cluster.log_dir / "slurmctld.log").read_text()
    assert "a job is left as it is" in log
    assert "attempt to perform arithmetic on a nil value" in log
    await until(lambda: has(script, MINE), seconds=SECONDS, what="jobs with a class", every=0.2)


async def test_a_user_without_a_name_is_told_that_a_token_is_missing(cluster: OwnedSlurmCluster) -> None:
    as_nobody_known = ("setpriv", "--reuid=5999", "--regid=5999", "--clear-groups")

    submitted = await cluster.run(
        *("env", f"--chdir={cluster.shared_path}", *as_nobody_known, "sbatch", "--wrap=true"), input=""
    )

    assert submitted.returncode != 0
    assert "no user with the uid 5999: set SLURM_JWT" in submitted.stderr
