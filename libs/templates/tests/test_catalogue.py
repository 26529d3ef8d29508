"""The catalogue of the installation: each template renders with its example, and asks for what it says."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_sbatch.applying import apply
from clusterra_templates.catalogue import Folder, load_folder
from clusterra_templates.definitions import OwnBatch, OwnInteractive, OwnPreset, OwnWorkflow
from clusterra_templates.rendering import Rendered, Wanted, render
from template_examples import CONTEXT, NOW

FOLDER = Path(__file__).parents[3] / "catalog" / "templates"
FILES = sorted(file.stem for file in FOLDER.glob("*.yaml"))
COMPOSED = [
    each for each in FILES if re.search("^kind: (preset|workflow)$", (FOLDER / f"{each}.yaml").read_text(), re.M)
]
"""Presets and workflows, which are made of other templates."""
JOBS = [each for each in FILES if each not in COMPOSED]


@cache
def catalogue() -> Folder:
    return load_folder(FOLDER)


def job_template(template_id: str) -> OwnBatch | OwnInteractive:
    definition = catalogue().definitions[template_id]
    assert isinstance(definition, OwnBatch | OwnInteractive)
    return definition


@cache
def example(template_id: str) -> Rendered:
    definition = job_template(template_id)
    given = definition.example
    return render(definition, Wanted(given.params, given.inputs), CONTEXT, now=NOW)


def test_every_file_is_a_template() -> None:
    assert catalogue().problems == ()
    assert sorted(catalogue().definitions) == FILES
    assert len(FILES) >= 20


@pytest.mark.parametrize("template_id", COMPOSED)
def test_what_it_is_made_of_are_templates(template_id: str) -> None:
    definition = catalogue().definitions[template_id]

    assert isinstance(definition, OwnPreset | OwnWorkflow)
    steps = getattr(definition, "steps", ())
    assert {each.template_id for each in steps} <= set(FILES)


@pytest.mark.parametrize("template_id", JOBS)
def test_the_script_of_its_example_is_bash(template_id: str) -> None:
    script = example(template_id).script

    done = subprocess.run(["bash", "-n"], input=script.encode(), check=False)

    assert done.returncode == 0


@pytest.mark.parametrize("template_id", JOBS)
def test_its_example_is_a_job_that_sbatch_takes(template_id: str) -> None:
    definition = job_template(template_id)
    expected = definition.expected

    job = apply(example(template_id).script, JobDescription(environment=("PATH=/bin",)), now=NOW).job

    assert expected is not None
    assert definition.check is not None
    tasks = job.tasks or (job.tasks_per_node or 1) * int(job.nodes or 1)
    assert tasks * (job.cpus_per_task or 1) == expected.cpus
    assert (job.memory_per_node or (job.memory_per_cpu or 0) * expected.cpus) == expected.memory_mib
    assert ("gpu" in (job.tres_per_node or "")) == (expected.gpus > 0)
    assert (job.time_limit or 0) >= expected.minutes


def test_a_bad_file_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "shell.yaml").write_text((FOLDER / "shell.yaml").read_text())
    (tmp_path / "broken.yaml").write_text("id: [")
    (tmp_path / "other-name.yaml").write_text((FOLDER / "fastqc.yaml").read_text())
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")

    found = load_folder(tmp_path)

    assert list(found.definitions) == ["shell"]
    assert len(found.problems) == 3
