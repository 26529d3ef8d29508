/** A simple form for the parameters of a template: texts, numbers, choices and switches, with their defaults. */

import { Checkbox, NumberInput, Select, Stack, Textarea, TextInput } from "@mantine/core";
import { visible } from "./Foreign";
import { changed, isSimple, shown, type Field, type Values } from "./parameterValues";

interface Props {
  fields: readonly Field[];
  values: Values;
  onChange: (values: Values) => void;
}

export function ParameterFields({ fields, values, onChange }: Props) {
  return (
    <Stack gap="xs">
      {fields.filter(isSimple).map((field) => (
        <ParameterField
          key={field.name}
          field={field}
          value={shown(field, values)}
          change={(value) => onChange(changed(field, values, value))}
        />
      ))}
    </Stack>
  );
}

interface FieldProps {
  field: Field;
  value: boolean | number | string;
  change: (value: boolean | number | string) => void;
}

const MOST_CHARACTERS = 128 * 1024;

function ParameterField({ field, value, change }: FieldProps) {
  const about = {
    label: visible(field.label || field.name),
    ...(field.description ? { description: visible(field.description) } : {}),
    required: field.required,
  };
  switch (field.type) {
    case "number":
      return (
        <NumberInput
          {...about}
          value={typeof value === "boolean" ? "" : value}
          onChange={change}
          {...(field.min === null ? {} : { min: field.min })}
          {...(field.max === null ? {} : { max: field.max })}
          clampBehavior="none"
        />
      );
    case "bool":
      return <Checkbox {...about} required={false} checked={value === true} onChange={({ currentTarget }) => change(currentTarget.checked)} />;
    case "enum":
      return (
        <Select
          {...about}
          data={(field.options ?? []).map((option) => ({ value: String(option), label: visible(String(option)) }))}
          value={String(value)}
          onChange={(chosen) => change(field.options?.find((option) => String(option) === chosen) ?? "")}
        />
      );
    case "textarea":
      return (
        <Textarea {...about} autosize minRows={3} maxRows={12} maxLength={MOST_CHARACTERS} value={String(value)} onChange={({ currentTarget }) => change(currentTarget.value)} />
      );
    default:
      return <TextInput {...about} maxLength={4096} value={String(value)} onChange={({ currentTarget }) => change(currentTarget.value)} />;
  }
}
