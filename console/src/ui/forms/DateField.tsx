/** A day or a moment, applied as soon as it is written as a whole; at the latest on Enter, and when one leaves the field. */

import { TextInput } from "@mantine/core";
import { useState } from "react";
import { isWholeDate } from "./dateEntry";

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
      onChange={({ currentTarget }) => {
        setWritten(currentTarget.value);
        if (currentTarget.value !== value && isWholeDate(currentTarget.value, currentTarget.validity)) apply(currentTarget.value);
      }}
      onBlur={(event) => done(event.currentTarget)}
      onKeyDown={(event) => {
        if (event.key === "Enter") done(event.currentTarget);
      }}
    />
  );
}
