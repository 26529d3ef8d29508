"""A definition of a template, for tests."""

OWN = """\
format: clusterra/1
id: greet
name: Greet
description: Greets.
tools: [echo]
kind: batch
runtime: {kind: host_system, binary: echo}
inputs: []
parameters:
  - {key: whom, widget: text, default: world}
sbatch: |
  #SBATCH --time=5
outputs: {dir: .}
script: |
  #!/bin/sh
  echo hello {{ params.whom }}
"""
