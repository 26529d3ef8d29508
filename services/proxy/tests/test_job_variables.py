"""A script finds the same variables, directory, umask and limits as under the real sbatch."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_proxy.requests.job_variables import add_job_variables, tres_per_task
from clusterra_sbatch.applying import apply
from clusterra_sbatch.script_job import ScriptJob
from hypothesis import given
from hypothesis import strategies as st
from proxy_world import ProxyWorld, find_node
from slurm_world import SlurmWorld

LINES = (
    "",
    "-n 2 -N 1",
    "-c 2",
    "-n 2 -c 2 -N 1 --mem-per-cpu=200M --hint=nomultithread",
    "-N 1 --ntasks-per-node=2 --mem=500 --threads-per-core=1 --hint=multithread",
    "--hint=multithread",
    "-N 2",
    "-a 3 -J two\\ words -p main -t 5",
    "-D /tmp -A lab -q normal",
    "-D deep",
    "-d singleton --distribution=cyclic:block --signal=B:USR1@30 --kill-on-invalid-dep=yes",
    "-m plane=2 -n 2 -N 1 --hint=memory_bound",
    "-m nopack --hint=compute_bound --comment=mine --mail-type=END --mail-user=ada@example.org",
    "--gres=gpu:h100:1",
    "-G 1 --cpus-per-gpu=2 --mem-per-gpu=300M",
    "--gpus-per-node=h100:1",
    "--gpus-per-task=h100:1 -n 2 -c 2",
    "-O -n 3 -N 1",
    "--ntasks-per-core=1 -n 2 -N 1",
    "--ntasks-per-socket=1 -n 2 -N 1",
    "--mincpus=2 --prefer=gpu --spread-job --oom-kill-step=0",
    "--ntasks-per-gpu=1 -n 2",
    "--gres-flags=disable-binding --contiguous --use-min-nodes --sockets-per-node=1",
)
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "MINE": "1"}
OF_THE_JOB = {
    # Specific to each job and its nodes.
    *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID", "SLURM_JOB_SLUID", "SLURM_TASK_PID"),
    *("SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME"),
    *("HOSTNAME", "SLURM_TOPOLOGY_ADDR", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"),
    # Of the shell that called sbatch.
    *("SLURM_SUBMIT_HOST", "SLURM_PRIO_PROCESS"),
}
OF_SLURMD = ("nofiles", "coredump")
"""Limits that slurmd may raise for itself: sbatch takes those of its own shell along."""
SCRIPT = "#!/bin/sh\n#SBATCH {line}\necho cwd=$(pwd)\necho umask=$(umask)\nulimit -a | sed 's/$/=/'\nenv\n"
PREFIXES = ("SLURM", "OMPI_", "PRTE_", "HYDRA_", "I_MPI_", "MINE", "ENVIRONMENT", "CUDA")
SHELL = ("cwd", "umask")


def report(output: Path) -> dict[str, str]:
    """What a job found, by name, and its limits, whose lines have no value."""
    pairs = [line.partition("=") for line in output.read_text().splitlines()]
    return {
        name: value
        for name, equals, value in pairs
        if equals
        and name not in OF_THE_JOB
        and not name.startswith(OF_SLURMD)
        and (name in SHELL or name.startswith(PREFIXES) or " " in name)
    }


async def test_a_script_finds_what_it_finds_under_sbatch(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser
) -> None:
    slots = asyncio.Semaphore(4)
    given_environment = tuple(f"{name}={value}" for name, value in ENVIRONMENT.items())
    home = await slurm.home(alice, "deep")
    await slurm.add_account("lab")

    async def compare(number: int, line: str) -> dict[str, tuple[str | None, str | None]]:
        script = SCRIPT.format(line=line)
        outputs = [f"variables-{number}-by-{way}" for way in ("proxy", "sbatch")]
        paths = [f"{slurm.shared_path}/{output}" for output in outputs]
        name = None if "-J" in line else "same"
        fields = {"name": name} if name else {}
        submitted = await proxy.submit(alice, script, standard_output=paths[0], environment=given_environment, **fields)
        arguments = (f"--job-name={name}",) if name else ()
        async with slots:
            by_sbatch = await slurm.cluster.sbatch(
                alice, script, f"--output={paths[1]}", *arguments, env=ENVIRONMENT, submit_directory=home
            )
        for job_id in (submitted.job_id, by_sbatch):
            await proxy.wait_for_end(alice, job_id, seconds=120)
        ours, theirs = (report(slurm.shared / output) for output in outputs)
        assert ours.keys() & set(SHELL) == set(SHELL)
        assert int(ours["umask"], 8) == 0o077
        names = sorted(ours.keys() | theirs.keys())
        return {name: (ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)}

    async with slurm.worker("w3", cpus=8, features="gpu", gres="gpu:h100:2"):
        await proxy.until_snapshot(lambda snapshot: find_node(snapshot, "w3") is not None)
        compared = await asyncio.gather(*(compare(number, line) for number, line in enumerate(LINES)))
    await slurm.delete_node_record("w3")

    assert {line: found for line, found in zip(LINES, compared, strict=True) if found} == {}


async def test_an_invalid_dependency_ends_a_job_that_asked_for_it(proxy: ProxyWorld, alice: SlurmUser) -> None:
    failing = (await proxy.submit(alice, "#!/bin/sh\nfalse\n")).job_id
    await proxy.wait_for_end(alice, failing)
    lines = (f"#SBATCH -d afterok:{failing} --kill-on-invalid-dep={answer}" for answer in ("yes", "no"))

    ending, waiting = [(await proxy.submit(alice, f"#!/bin/sh\n{line}\ntrue\n")).job_id for line in lines]

    assert (await proxy.wait_for_end(alice, ending, seconds=90)).state == "CANCELLED"
    assert (await proxy.job(alice, waiting)).state == "PENDING"
    await proxy.cancel(alice, waiting)


async def test_a_script_gets_its_signal_before_its_time_limit(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser
) -> None:
    output = slurm.shared / "signalled"
    script = "#!/bin/sh\n#SBATCH -t 2 --signal=B:USR1@112\ntrap 'echo caught; exit 0' USR1\nsleep 110 &\nwait\n"

    job_id = (await proxy.submit(alice, script, standard_output=f"{slurm.shared_path}/signalled")).job_id
    await proxy.wait_for_end(alice, job_id, seconds=120)

    assert output.read_text().splitlines()[0] == "caught"


async def test_exported_variables_are_those_of_the_option(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser
) -> None:
    """The real sbatch asks for a login environment here, and the workers have no account from which to take it."""
    given_environment = tuple(f"{name}={value}" for name, value in ENVIRONMENT.items())
    expected = {"NONE": None, "MINE=3": "3", "MINE": "1", "ALL,MINE=4": "4"}

    async def export(value: str) -> dict[str, str]:
        output = f"export-{value}"
        script = SCRIPT.format(line=f"--export={value}")
        path = f"{slurm.shared_path}/{output}"
        submitted = await proxy.submit(alice, script, standard_output=path, environment=given_environment)
        await proxy.wait_for_end(alice, submitted.job_id, seconds=120)
        return report(slurm.shared / output)

    reports = dict(zip(expected, await asyncio.gather(*map(export, expected)), strict=True))

    assert {value: found.get("MINE") for value, found in reports.items()} == expected
    assert {value: found["SLURM_EXPORT_ENV"] for value, found in reports.items()} == {name: name for name in expected}
    assert {found["SLURM_SUBMIT_DIR"] for found in reports.values()} == {alice.home_in(slurm.shared_path)}


NAMES = st.sampled_from(["PATH", "MINE", "SLURM_NTASKS", "SLURM_SUBMIT_DIR", "SLURM_UMASK", "HYDRA_BOOTSTRAP", "LANG"])
COUNTS = st.none() | st.integers(1, 64)


def variables(environment: tuple[str, ...], line: str = "", **fields: object) -> dict[str, str]:
    """A job's environment, by name; each name once."""
    job = JobDescription.model_validate({"environment": environment, **fields})
    applied = apply(f"#!/bin/sh\n#SBATCH {line}\n", job, now=datetime.now(UTC))
    items = add_job_variables(applied.job.environment, applied, directory="/data", host="rest", umask="0077")
    pairs = [item.partition("=") for item in items]
    return {name: value for name, _, value in pairs}


@given(st.dictionaries(NAMES, st.text("abc/=", max_size=5), min_size=1), COUNTS, COUNTS, COUNTS)
def test_given_variables_stay_unless_sbatch_would_set_them(
    given_variables: dict[str, str], tasks: int | None, cpus: int | None, per_node: int | None
) -> None:
    environment = tuple(f"{name}={value}" for name, value in given_variables.items())

    found = variables(environment, tasks=tasks, cpus_per_task=cpus, tasks_per_node=per_node)

    kept = {"PATH", "MINE", "LANG", "SLURM_UMASK", "HYDRA_BOOTSTRAP"} & given_variables.keys()
    assert {name: found[name] for name in kept} == {name: given_variables[name] for name in kept}
    assert found["SLURM_SUBMIT_DIR"] == "/data"
    assert found.get("SLURM_CPUS_PER_TASK") == (str(cpus) if cpus else None)
    assert found.get("SLURM_NTASKS_PER_NODE") == (str(per_node) if per_node else None)
    assert found.get("SLURM_NTASKS", found.get("SLURM_NPROCS")) == (
        str(tasks) if tasks else given_variables.get("SLURM_NTASKS")
    )


@given(st.lists(st.tuples(st.sampled_from(["", "a100", "h100"]), st.integers(1, 9)), min_size=1, max_size=3))
def test_gpus_are_shown_as_the_option_named_them(gpus: list[tuple[str, int]]) -> None:
    text = ",".join(f"{kind}:{count}" if kind else str(count) for kind, count in gpus)

    found = variables(("PATH=/bin",), f"-G {text} --gpus-per-node={text} --gpus-per-task={text} -n 1")

    assert (found["SLURM_GPUS"], found["SLURM_GPUS_PER_NODE"]) == (text, text)
    assert found["SLURM_TRES_BIND"] == f"gres/gpu:per_task:{sum(count for _, count in gpus)}"


@pytest.mark.parametrize(
    ("cpus", "tres", "expected"),
    [
        (None, None, ""),
        (2, None, "cpu=2"),
        (2, "gres/gpu:h100=1", "cpu=2,gres/gpu:h100=1"),
        (2, "cpu=4,gres/gpu=1", "cpu=4,gres/gpu=1"),
        (None, "gres/gpu=1", "gres/gpu=1"),
    ],
)
def test_the_resources_of_a_task_name_its_cpus(cpus: int | None, tres: str | None, expected: str) -> None:
    job = ScriptJob(environment=("PATH=/bin",), cpus_per_task=cpus, tres_per_task=tres)
    assert tres_per_task(job) == expected
