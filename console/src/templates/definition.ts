/** What the service says of a definition, at its lines; and the definition that a new template begins with. */

import type { LineNote } from "../ui/editor/editor";

const OF_LINE = /line (\d{1,7}): /g;
const MOST = 100;

/** The problems at lines of a definition in the text of an error. Empty where it names no line. */
export function notesOf(detail: string): LineNote[] {
  const marks = [...detail.matchAll(OF_LINE)].slice(0, MOST);
  return marks.map((mark, index) => ({
    line: Number(mark[1]),
    severity: "error",
    message: detail.slice(mark.index + mark[0].length, marks[index + 1]?.index).replace(/; $/, ""),
  }));
}

export const FIRST_DEFINITION = `format: clusterra/1
id: my-template
name: My template
description: What it does, in a sentence.
tools: [bash]
kind: batch
runtime: {kind: host_system, binary: bash}
inputs: []
parameters:
  - {key: greeting, widget: text, default: hello}
  - {key: minutes, widget: number, default: 10, min: 1, max: 1440}
sbatch: |
  #SBATCH --time={{ params.minutes }}
outputs: {dir: .}
script: |
  #!/bin/bash
  set -euo pipefail
  echo {{ params.greeting }}
`;
