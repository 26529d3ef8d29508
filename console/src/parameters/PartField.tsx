/** One value of a template's form. */

import { Checkbox, NativeSelect, Textarea, TextInput } from "@mantine/core";
import { text } from "../texts";
import { visible } from "../ui/UserText";
import { TableField } from "./TableField";
import type { Part } from "./values";

interface Props {
  part: Part;
  value: string;
  problem: string | undefined;
  onChange: (value: string) => void;
}

const MONO = { input: { fontFamily: "var(--mantine-font-family-monospace)" } };
const LONGEST = 128 * 1024;

export function PartField({ part, value, problem, onChange }: Props) {
  const shared = {
    label: visible(part.label),
    description: visible(hint(part)),
    error: problem,
    withAsterisk: part.required,
    "aria-required": part.required,
  };
  switch (part.widget) {
    case "bool":
      return (
        <Checkbox
          label={shared.label}
          description={shared.description}
          error={problem}
          checked={value === "true"}
          onChange={(event) => onChange(String(event.currentTarget.checked))}
        />
      );
    case "enum":
      return (
        <NativeSelect
          {...shared}
          value={value}
          onChange={(event) => onChange(event.currentTarget.value)}
          data={[
            ...(part.default === null ? [{ value: "", label: "" }] : []),
            ...part.options.map((option) => ({ value: String(option), label: visible(String(option)) })),
          ]}
        />
      );
    case "table":
      return <TableField part={part} value={value} problem={problem} onChange={onChange} />;
    case "textarea":
    case "env_map":
    case "json":
    case "json_object":
      return (
        <Textarea
          {...shared}
          value={value}
          onChange={(event) => onChange(event.currentTarget.value)}
          autosize
          minRows={part.widget === "textarea" ? 4 : 2}
          maxRows={16}
          maxLength={LONGEST}
          spellCheck={false}
          styles={MONO}
          dir="auto"
        />
      );
    default:
      return (
        <TextInput
          {...shared}
          value={value}
          onChange={(event) => onChange(event.currentTarget.value)}
          placeholder={part.default === null ? "" : visible(part.default)}
          inputMode={part.widget === "number" ? "decimal" : "text"}
          maxLength={4096}
          dir="auto"
        />
      );
  }
}

/** What is said of a value: the author's own words, and its bounds. */
export function hint({ description, widget, min, max }: Part): string {
  const bounds =
    min !== null && max !== null
      ? text("parameters.form.between", { min, max })
      : min !== null
        ? text("parameters.value.least", { min })
        : max !== null
          ? text("parameters.value.most", { max })
          : "";
  const form = widget === "env_map" ? text("parameters.form.env_map") : widget === "json" || widget === "json_object" ? text("parameters.form.json") : "";
  return [description, bounds, form].filter((each) => each !== "").join(" ");
}
