"""Software on workers, by jobs on real Slurm: `make test-software`.

MPI, modules, packages of Python and of conda, containers, and templates whose programs other tests' workers do not
have. The commands are those of docs/guide/software.md.
"""

import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from cached_packages import installed, linked
from clusterra_lab.machine.process import run
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from template_jobs import completed, missing_of_example

TRIED = ("mpi-hello", "r-script")
ONE_ADDRESS = r"pml = ucx\npml_ucx_tls = any\npml_ucx_devices = any\n"
"""Open MPI's settings for workers that share an address, as those of the lab do: its own TCP refuses such peers."""


async def commands(user: User, lines: str) -> str:
    """Runs lines of bash in a job, and returns its output."""
    return await completed(user, "shell", {"params": {"commands": lines}})


@pytest.mark.parametrize("template_id", TRIED)
async def test_the_example_of_a_template_does_its_work(ada: User, template_id: str) -> None:
    missing = await missing_of_example(ada, template_id)

    assert missing == []


async def test_a_module_of_the_shared_folder_is_found_and_loaded(lab: Stack, ada: User) -> None:
    tree = lab.slurm.shared_dir / "modules"
    (tree / "hello").mkdir(parents=True)
    program = lab.slurm.shared_dir / "software" / "hello" / "1.0" / "bin" / "hello"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello from a module\n")
    program.chmod(0o755)
    folder = f"{lab.slurm.shared_path}/software/hello/1.0/bin"
    (tree / "hello" / "1.0.lua").write_text(f'whatis("Greets.")\nprepend_path("PATH", "{folder}")\n')

    said = await commands(ada, "module avail 2>&1\nmodule load hello\nhello\nmodule list 2>&1")

    assert "hello from a module" in said
    assert "hello/1.0" in said


async def test_a_container_runs_as_the_jobs_user_without_privileges(ada: User) -> None:
    said = await commands(
        ada,
        """
        mkdir -p "$TMPDIR/root/bin"
        cp /usr/bin/busybox "$TMPDIR/root/bin/"
        ln -s busybox "$TMPDIR/root/bin/sh"
        echo inside > "$TMPDIR/root/marker"
        apptainer --quiet build hello.sif "$TMPDIR/root" 2>&1
        apptainer --quiet exec hello.sif /bin/sh -c '
            cat /marker
            echo "job $SLURM_JOB_ID, $(busybox id -u)"
            busybox grep CapEff /proc/self/status
            echo written > out.txt
        ' 2>/dev/null
        ls /marker 2>/dev/null || echo "not outside"
        cat out.txt
        id -u
        """,
    )

    marker, seen, rights, outside, written, uid = said.splitlines()
    assert (marker, outside, written) == ("inside", "not outside", "written")
    assert seen.startswith("job ")
    assert seen.endswith(f", {uid}"), "the user is the same inside"
    assert uid != "0"
    assert rights.split() == ["CapEff:", "0" * 16]


async def test_mpirun_of_open_mpi_starts_ranks_on_two_workers_by_pmix(ada: User) -> None:
    await commands(ada, f"mkdir -p ~/.openmpi\nprintf '{ONE_ADDRESS}' > ~/.openmpi/mca-params.conf")

    said = await completed(ada, "mpi-hello", {"params": {"mpi": "mpirun"}})

    assert "rank 3 of 4 on " in said
    assert "ranks: 4 on 2 nodes\n" in said


async def test_srun_of_debians_slurm_has_pmi2_and_refuses_pmix(ada: User) -> None:
    said = await commands(
        ada, "srun --mpi=list 2>&1 | sort\nif srun --mpi=pmix true 2>&1; then echo started; else echo refused; fi"
    )

    assert {"none", "pmi2"} <= set(said.split())
    assert "Invalid MPI type 'pmix'" in said
    assert said.splitlines()[-1] == "refused"


async def test_a_package_is_installed_in_a_virtual_environment(lab: Stack, ada: User) -> None:
    wheels = lab.slurm.shared_dir / "wheels"
    wheels.mkdir()
    wheel(wheels)
    values = {
        "packages": f"--no-index --find-links {lab.slurm.shared_path}/wheels greeting==1.0",
        "code": "import greeting, sys\nprint(greeting.TEXT, sys.prefix != sys.base_prefix)",
    }

    said = await completed(ada, "python-venv", {"params": values})

    assert said.splitlines()[-1] == "hello from a package True"


def wheel(folder: Path) -> None:
    """Writes a package with one module."""
    of = "greeting-1.0.dist-info"
    with zipfile.ZipFile(folder / "greeting-1.0-py3-none-any.whl", "w") as packed:
        packed.writestr("greeting.py", 'TEXT = "hello from a package"\n')
        packed.writestr(f"{of}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        packed.writestr(f"{of}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{of}/RECORD", "")


async def test_an_environment_of_conda_is_made_in_one_job_and_used_in_another(lab: Stack, ada: User) -> None:
    """By the program of docs/guide/software.md, with a channel in the shared folder."""
    shared = lab.slurm.shared_dir
    client = await installed("conda-client", "py-rattler==0.28.*")
    builder = await installed("conda-builder", "py-rattler-build==0.73.*")
    shutil.copytree(client, shared / "rattler", copy_function=linked)
    (shared / "rattler" / "environment.py").write_text(program_of_the_guide("## conda"))
    channel = await run(
        "conda-channel",
        [sys.executable, str(Path(__file__).with_name("conda_channel.py")), str(shared / "channel")],
        log=shared / "channel.log",
        env={"PYTHONPATH": f"{client}:{builder}"},
    )
    assert channel.exit_code == 0, channel.tail()
    folder = lab.slurm.shared_path
    made = f"PYTHONPATH={folder}/rattler python3 {folder}/rattler/environment.py ~/envs/hello"

    await commands(ada, f"{made} file://{folder}/channel greet")
    said = await commands(ada, "export PATH=~/envs/hello/bin:$PATH\ngreet\nls ~/envs/hello/conda-meta\necho ~")

    greeting, *packages, home = said.splitlines()
    assert greeting == f"greetings from {home}/envs/hello"
    assert packages == ["greet-1.0-0.json", "greeting-words-2.0-0.json", "history"]


def program_of_the_guide(heading: str) -> str:
    """The first program in Python below a heading of docs/guide/software.md."""
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "software.md").read_text()
    return guide.partition(f"\n{heading}\n")[2].partition("```python\n")[2].partition("```")[0]


async def test_a_search_in_a_blast_database_finds_the_sequence(lab: Stack, ada: User) -> None:
    folder = f"{lab.slurm.shared_path}/blast"
    sequence = "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQVKVKALPDAQFEVVHSLAKWKRQ"
    await commands(
        ada,
        f"mkdir {folder}\nprintf '>known a protein\\n{sequence}\\n' > {folder}/db.fasta\n"
        f"printf '>asked\\n{sequence[5:60]}\\n' > {folder}/query.fasta\n"
        f"makeblastdb -in {folder}/db.fasta -dbtype prot -out {folder}/db",
    )
    values = {
        "inputs": {"query": f"{folder}/query.fasta", "database": f"{folder}/db"},
        "params": {"cpus": 1, "memory_gib": 1, "hours": 1},
    }

    said = await completed(ada, "blast-search", values)

    assert "hits: 1\n" in said
