"""Launches of templates, runs and schedules whose files are staged, on the whole lab."""

from typing import Any

from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from session_client import asked, published
from staged_files import downloaded, staging_over, uploaded

SORTED = """\
format: clusterra/1
id: sorted-lines
name: Sorted lines
description: Sorts the lines of a file.
tools: [sort]
kind: batch
runtime: {kind: host_system, binary: sort}
inputs:
  - {key: text, role: generic_path, required: true}
parameters:
  - {key: word, widget: text, default: sorted}
sbatch: |
  #SBATCH --mem=512M
outputs: {dir: results}
staging:
  current_working_directory: "sorted-{{ ctx.run_id }}"
  stage_in:
    - {source: "{{ inputs.text }}", destination: in/text.txt}
  stage_out:
    - {source: "{{ outputs.dir }}/**", destination: "outputs/{{ params.word }}/"}
script: |
  #!/bin/bash
  set -eu
  mkdir results
  sort in/text.txt > results/text.txt
"""


def launch(template: str) -> str:
    return f"/v1/launchables/{template}/submit"


async def test_a_launched_template_finds_its_inputs_and_its_outputs_are_in_the_bucket(lab: Stack, ada: User) -> None:
    await uploaded(lab, ada, "data/launch/b a.txt", b"b\na\n")
    values = {"text": "data/launch/b a.txt", "word": "launched"}

    async with published(ada, SORTED) as template:
        shown = await asked(ada, "POST", f"/v1/launchables/{template}/render", values)
        launched = await asked(ada, "POST", launch(template), values, status=201)
        missing = await asked(ada, "POST", launch(template), values | {"text": "data/none.txt"}, status=400)
        pattern = await asked(ada, "POST", launch(template), values | {"word": "**"}, status=400)
        elsewhere = await asked(ada, "POST", launch(template), values | {"text": "elsewhere/x"}, status=400)
    staging = await staging_over(lab, ada, launched["job_id"])

    assert shown["steps"][0]["staging"]["stage_out"] == [{"source": "results/**", "destination": "outputs/launched/"}]
    assert (staging["state"], staging["stage_in"]["files"], staging["stage_out"]["files"]) == ("done", 1, 1), staging
    assert await downloaded(lab, ada, "outputs/launched/text.txt") == b"a\nb\n"
    assert "there is no file data/none.txt" in missing["detail"]
    assert "stands in a path" in pattern["detail"]
    assert "there is no such folder" in elsewhere["detail"]


async def test_the_catalogue_copies_the_figures_of_a_benchmark_where_its_person_wants_them(
    lab: Stack, ada: User
) -> None:
    small: dict[str, Any] = {"size_mib": 4, "minutes": 5}

    plain = await asked(ada, "POST", launch("cluster-benchmark"), small, status=201)
    copied = await asked(
        ada, "POST", launch("cluster-benchmark"), small | {"results_to": "outputs/benchmarks"}, status=201
    )
    staging = await staging_over(lab, ada, copied["job_id"])
    run_id = copied["output_dir"].removeprefix("benchmark-")
    figures = await downloaded(lab, ada, f"outputs/benchmarks/{run_id}/figures.tsv")

    assert (staging["state"], staging["stage_in"]) == ("done", None), staging
    assert figures is not None
    assert [line.split(b"\t")[0] for line in figures.splitlines()] == [b"processor", b"memory", b"write", b"read"]
    assert (await asked(ada, "GET", f"/v1/clusters/{ada.cluster}/jobs/{plain['job_id']}"))["staging"] is None
