/** The form of a job. What `#SBATCH` lines can say is written there, the rest is kept beside the script. */

import { Textarea, TextInput } from "@mantine/core";
import { useMemo } from "react";
import { text } from "../texts";
import type { Finding } from "./script/checker";
import type { Draft } from "./draft";
import { FIELDS, readForm, type Field } from "./script/fields";
import { JobFiles, type FieldProblem } from "./JobFiles";
import classes from "./SubmitPage.module.css";

interface Props {
  cluster: string;
  draft: Draft;
  findings: readonly Finding[];
  /** What the service says of other fields. */
  problems: readonly FieldProblem[];
  environmentProblem: string | null;
  onField: (field: Field, value: string) => void;
  onDraft: (change: (before: Draft) => Draft) => void;
}

const WIDE: ReadonlySet<Field> = new Set(["name", "directory", "output"]);

export function JobForm({ cluster, draft, findings, problems, environmentProblem, onField, onDraft }: Props) {
  const form = useMemo(() => readForm(draft.script), [draft.script]);
  return (
    <div className={classes.fields}>
      {FIELDS.map((field) => (
        <TextInput
          key={field}
          className={WIDE.has(field) ? (classes.wide as string) : ""}
          label={text(`submit.field.${field}`)}
          description={text("submit.option", { option: form[field].option })}
          placeholder={text(`submit.placeholder.${field}`)}
          value={form[field].value}
          onChange={(event) => onField(field, event.currentTarget.value)}
          error={findings.find((each) => each.field === field && each.severity === "error")?.message}
          inputWrapperOrder={["label", "input", "error"]}
          title={text("submit.option", { option: form[field].option })}
          maxLength={4096}
          dir="auto"
        />
      ))}
      <Textarea
        className={classes.wide as string}
        label={text("submit.environment")}
        description={text("submit.environment_help")}
        value={draft.environment}
        onChange={(event) => {
          const environment = event.currentTarget.value;
          onDraft((before) => ({ ...before, environment }));
        }}
        error={environmentProblem}
        autosize
        minRows={1}
        maxRows={8}
        spellCheck={false}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      />
      <div className={classes.wide}>
        <JobFiles cluster={cluster} draft={draft} problems={problems} onDraft={onDraft} />
      </div>
    </div>
  );
}
