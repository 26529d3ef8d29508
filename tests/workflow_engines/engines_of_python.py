"""Engines that are packages of Python: submitit, dask-jobqueue, Parsl, PSI/J, simple_slurm."""

import shutil
from pathlib import Path

from engine_machine import EngineMachine, engine_environment

SUBMITIT = "submitit==1.5.4"
DASK_JOBQUEUE = "dask-jobqueue==0.9.0"
PARSL = "parsl==2026.10.26"
PSIJ = "psij-python==0.9.11"
SIMPLE_SLURM = "simple-slurm==0.3.6"
PROGRAMS = Path(__file__).with_name("programs")


async def ran(machine: EngineMachine, environment: str, program: str) -> str:
    shutil.copy(PROGRAMS / program, machine.home)
    return await machine.run(f"{environment}/bin/python3", program)


async def test_submitit_runs_an_array(machine: EngineMachine) -> None:
    environment = await engine_environment(machine, "submitit", SUBMITIT)

    said = await ran(machine, environment, "submitit_array.py")

    assert "squares [9, 16, 25]\n" in said


async def test_dask_starts_workers_and_computes(machine: EngineMachine) -> None:
    environment = await engine_environment(machine, "dask", DASK_JOBQUEUE)

    said = await ran(machine, environment, "dask_cluster.py")

    assert "sum 285\n" in said
    assert "jobs 2\n" in said
    assert [each.name for each in machine.commands()].count("scancel") == 2


async def test_parsl_starts_a_worker_and_runs_apps(machine: EngineMachine) -> None:
    environment = await engine_environment(machine, "parsl", PARSL)

    said = await ran(machine, environment, "parsl_apps.py")

    assert "squares [9, 16, 25]\n" in said


async def test_psij_runs_a_job(machine: EngineMachine) -> None:
    environment = await engine_environment(machine, "psij", PSIJ)

    said = await ran(machine, environment, "psij_job.py")

    assert "state COMPLETED" in said
    # It exists only if the job had really ended.
    assert (machine.home / "psij.out").read_text().startswith("job ")


async def test_simple_slurm_submits_lists_and_cancels(machine: EngineMachine) -> None:
    environment = await engine_environment(machine, "simple-slurm", SIMPLE_SLURM)

    said = await ran(machine, environment, "simple_slurm_job.py")

    assert "held PD\n" in said
    assert "job simple\n" in said
