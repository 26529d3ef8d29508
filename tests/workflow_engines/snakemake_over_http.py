"""Snakemake with its executor plugin for Slurm."""

import shutil
from pathlib import Path

from engine_machine import EngineMachine, downloaded, engine_environment, python_version

SNAKEMAKE = (
    "snakemake==9.27.1",
    "snakemake-executor-plugin-slurm==2.8.0",
    "snakemake-executor-plugin-slurm-jobstep==0.6.1",
)
IMMUTABLES = "immutables==0.21"
PIPELINES = Path(__file__).with_name("pipelines")


async def test_a_pipeline_of_three_rules(machine: EngineMachine, tmp_path: Path) -> None:
    overrides = tmp_path / "overrides.txt"
    overrides.write_text('immutables ; sys_platform == "none"\n')
    options = ("--no-binary", "connection-pool", "--override", str(overrides))
    environment = await engine_environment(machine, "snakemake", *SNAKEMAKE, options=options)
    place = machine.lab.slurm.shared_dir / "envs" / "snakemake" / "lib" / f"python{await python_version(machine.lab)}"
    # It has no wheel for Python 3.14. What is built for this Python has a form without compiled code for others.
    immutables = await downloaded("engine-immutables", IMMUTABLES, options=("--no-deps", "--no-binary", "immutables"))
    shutil.copytree(immutables, place / "site-packages", dirs_exist_ok=True)
    shutil.copy(PIPELINES / "Snakefile", machine.home)

    said = await machine.run(
        *(f"{environment}/bin/python3", "-m", "snakemake", "--executor", "slurm", "--jobs", "4"),
        *("--slurm-init-seconds-before-status-checks", "5", "--latency-wait", "20"),
        seconds=280,
    )
    assert "5 of 5 steps (100%) done" in said
    assert (machine.home / "total.txt").read_text() == "25\n"
    failed = [each.line for each in machine.commands() if each.code]
    # Slurm's own sacct refuses this command line too.
    assert all(line.startswith("sacct '-nu'") for line in failed), failed
