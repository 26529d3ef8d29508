"""Definitions for tests: one of version 2, one of our own format, as YAML and as values."""

from datetime import UTC, datetime
from textwrap import dedent

from clusterra_templates.definitions import Runnable
from clusterra_templates.loading import load
from clusterra_templates.rendering import JobContext, Rendered, Wanted, render

NOW = datetime(2026, 11, 24, tzinfo=UTC)
CONTEXT = JobContext(user="ada", cluster_id="main", run_id="r1")

OWN = dedent("""\
    format: clusterra/1
    id: count-words
    name: Count words
    description: Counts the words of a file.
    tools: [wc]
    kind: batch
    runtime: {kind: host_system, binary: wc}
    inputs:
      - {key: text_file, role: generic_path, required: true}
    parameters:
      - {key: label, widget: text, default: words}
      - {key: minutes, widget: number, default: 5, min: 1, max: 60}
      - {key: twice, widget: bool, default: false}
    sbatch: |
      #SBATCH --job-name=count-words
      #SBATCH --time={{ params.minutes }}
    outputs: {dir: "counts/{{ ctx.run_id }}"}
    script: |
      #!/bin/bash
      set -eu
      mkdir -p {{ outputs.dir }}
      echo {{ params.label }}
      {% if params.twice %}
      wc -w < {{ inputs.text_file }}
      {% endif %}
      wc -w < {{ inputs.text_file }} > {{ outputs.dir }}/count.txt
    """)

VERSION_2 = dedent("""\
    id: md-run
    name: Dynamics
    description: Runs dynamics.
    vertical: chemistry
    category: md
    workload_group: md
    modality: simulation
    tools: [mdrun]
    ready: true
    kind: batch
    runtime: {kind: docker_image, image: "mdrun:1"}
    inputs:
      - {key: input_tpr, role: generic_path, required: true}
    parameters:
      - {key: ntomp, widget: number, default: 4, min: 1, max: 64}
      - {key: extra, widget: text}
      - {key: config, widget: textarea}
      - {key: env, widget: env_map}
    sbatch: |
      #SBATCH --cpus-per-task={{ .params.ntomp }}
      {{- if gt (int .params.ntomp) 8 }}
      #SBATCH --partition=cpu
      {{- end }}
    outputs:
      dir: /mnt/efs/{{ .ctx.user_email }}/md-{{ .ctx.run_id }}
      artifacts:
        - {key: log, path: "{{ .outputs.dir }}/md.log", role: log}
    script: |
      #!/bin/bash
      set -euo pipefail
      OUT={{ .outputs.dir | quote }}
      mkdir -p "$OUT"
      cat > "$OUT/run.yaml" <<'CONFIG'
      run:
      {{ .params.config | indent 2 }}
      CONFIG
      {{- range $name, $value := .params.env }}
      export {{ $name }}={{ $value | quote }}
      {{- end }}
      echo {{ .runtime.image }} mdrun -s "{{ .inputs.input_tpr }}" -ntomp {{ .params.ntomp }} {{ .params.extra }}
    """)


def runnable(text: str) -> Runnable:
    definition = load(text)
    assert isinstance(definition, Runnable)
    return definition


def rendered(text: str, params: dict[str, object] | None = None, **inputs: object) -> Rendered:
    return render(runnable(text), Wanted(params=params or {}, inputs=inputs), CONTEXT, now=NOW)


def with_script(script: str, *, dialect: str = "own", widget: str = "textarea") -> str:
    """A definition with this script and one parameter, `x`."""
    base = OWN if dialect == "own" else VERSION_2
    head = base.partition("script: |\n")[0]
    head = head.replace("      - {key: text_file, role: generic_path, required: true}\n", "")
    head = head.replace("      - {key: label,", "      - {key: label,")
    lines = [line for line in head.split("\n") if "required: true" not in line and line != "inputs:"]
    text = "\n".join(lines).replace("parameters:\n", f"inputs: []\nparameters:\n  - {{key: x, widget: {widget}}}\n")
    return text + "script: |\n" + "".join(f"  {line}\n" for line in script.split("\n"))
