/** The values of a template, the rarer ones folded. */

import { Stack, Text } from "@mantine/core";
import { useState } from "react";
import { text } from "../texts";
import { PartField } from "./PartField";
import { keyOf, type Part, type Problems, type Values } from "./values";

interface Props {
  parts: readonly Part[];
  values: Values;
  problems: Problems;
  /** Whether missing values are said, too: not before the person has tried. */
  strict: boolean;
  onChange: (key: string, value: string) => void;
}

export function ParametersForm({ parts, values, problems, strict, onChange }: Props) {
  const [unfolded, setUnfolded] = useState(false);
  const field = (part: Part) => {
    const key = keyOf(part);
    const value = values[key] ?? "";
    return (
      <PartField
        key={key}
        part={part}
        value={value}
        problem={strict || value !== "" ? problems[key] : undefined}
        onChange={(given) => onChange(key, given)}
      />
    );
  };
  const rare = parts.filter(({ advanced }) => advanced);
  const usual = parts.filter(({ advanced }) => !advanced);
  return (
    <Stack gap="sm">
      {parts.length === 0 ? <Text c="dimmed">{text("parameters.form.nothing")}</Text> : null}
      {usual.map(field)}
      {rare.length > 0 ? (
        // Opened once, also by a problem, it stays open: the person is in it when the problem goes.
        <details open={unfolded || rare.some((part) => problems[keyOf(part)] !== undefined)} onToggle={({ currentTarget }) => setUnfolded(currentTarget.open)}>
          <summary>{text("parameters.form.more", { count: rare.length })}</summary>
          <Stack gap="sm" pt="sm">
            {rare.map(field)}
          </Stack>
        </details>
      ) : null}
    </Stack>
  );
}
