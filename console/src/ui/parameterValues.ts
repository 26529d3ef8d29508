/** The values of a template's parameters in a simple form. Pure. */

/** What a form needs to know of a parameter, or of an input. */
export interface Field {
  name: string;
  type: string;
  label: string;
  default: unknown;
  options: readonly (boolean | number | string)[] | null;
  min: number | null;
  max: number | null;
  required: boolean;
  advanced: boolean;
  description: string;
}

export type Values = Readonly<Record<string, boolean | number | string>>;

const SIMPLE: readonly string[] = ["text", "textarea", "number", "enum", "bool"];

/** Whether a simple form can show it. The others keep their defaults. */
export function isSimple(field: Field): boolean {
  return SIMPLE.includes(field.type);
}

/** What is shown for a field: what somebody chose, or else the default. */
export function shown(field: Field, values: Values): boolean | number | string {
  const value = values[field.name] ?? field.default;
  return typeof value === "boolean" || typeof value === "number" || typeof value === "string" ? value : "";
}

/** Values with another one; a text that was emptied is left out where it has no default. */
export function changed(field: Field, values: Values, value: boolean | number | string): Values {
  const { [field.name]: _before, ...others } = values;
  return value === "" && (field.type === "number" || field.default === null || field.default === undefined)
    ? others
    : { ...others, [field.name]: value };
}

/** The fields that must have a value and have none. */
export function missing(fields: readonly Field[], values: Values): Field[] {
  return fields.filter((field) => field.required && shown(field, values) === "");
}

interface Input {
  name: string;
  role: string;
  required: boolean;
  default: string | null;
  description: string;
}

/** An input as a field: a path, or a text of several lines. */
export function inputField({ name, role, required, default: value, description }: Input): Field {
  const type = role === "raw_text" ? "textarea" : "text";
  return { name, type, label: name, default: value, options: null, min: null, max: null, required, advanced: false, description };
}
