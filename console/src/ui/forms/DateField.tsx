/** A day or a moment that is applied when it is written: on Enter, and when one leaves the field. */

import { TextInput } from "@mantine/core";
import { useState } from "react";

interface Props {
  type: "date" | "datetime-local";
  label: string;
  /** As the input has it: `2026-01-31`, or `2026-01-31T12:00`; empty for none. */
  value: string;
  min?: string;
  max?: string;
  apply: (value: string) => void;
}

export function DateField({ type, label, value, min, max, apply }: Props) {
  const [written, setWritten] = useState<string | null>(null);
  const done = ({ validity }: HTMLInputElement) => {
    setWritten(null);
    // A date that is half written is none, and not an empty one.
    if (written !== null && written !== value && !validity.badInput) apply(written);
  };
  return (
    <TextInput
      type={type}
      label={label}
      value={written ?? value}
      {...(min === undefined ? {} : { min })}
      {...(max === undefined ? {} : { max })}
      onChange={(event) => setWritten(event.currentTarget.value)}
      onBlur={(event) => done(event.currentTarget)}
      onKeyDown={(event) => {
        if (event.key === "Enter") done(event.currentTarget);
      }}
    />
  );
}
