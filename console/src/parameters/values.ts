/** The values of a template's form: text and ticks as a person gives them, and the request that they make. */

import type { InputView, ParameterView, TemplateView } from "../api/schema";
import { text } from "../texts";
import { withoutSecrets } from "../ui/forms/drafts";

/** What is asked for. */
export interface Part {
  /** Its place in the request. */
  group: "params" | "inputs";
  name: string;
  label: string;
  widget: "text" | "textarea" | "number" | "enum" | "bool" | "env_map" | "json_object" | "json" | "table";
  required: boolean;
  advanced: boolean;
  description: string;
  /** As the form shows it; null where there is none. */
  default: string | null;
  options: readonly (boolean | number | string)[];
  min: number | null;
  max: number | null;
  /** Of a table. */
  format: "csv" | "tsv";
  columns: readonly string[];
}

export type Values = Readonly<Record<string, string>>;
export type Problems = Readonly<Record<string, string>>;

const LONGEST_LINE = 4096;
const LONGEST_TEXT = 128 * 1024;
const MOST_VARIABLES = 1000;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const NUMBER = /^-?\d{1,16}(\.\d{1,16})?([eE][-+]?\d{1,2})?$/;
const WIDGETS: Readonly<Record<string, Part["widget"]>> = {
  textarea: "textarea",
  number: "number",
  enum: "enum",
  bool: "bool",
  env_map: "env_map",
  nextflow_schema: "json_object",
  json_textarea: "json",
};

export function keyOf({ group, name }: Pick<Part, "group" | "name">): string {
  return `${group}.${name}`;
}

export function partsOf({ parameters, inputs }: Pick<TemplateView, "parameters" | "inputs">): Part[] {
  return [...inputs.map(ofInput), ...parameters.map(ofParameter)];
}

function ofParameter(parameter: ParameterView): Part {
  return {
    group: "params",
    name: parameter.name,
    label: parameter.label,
    widget: WIDGETS[parameter.type] ?? "text",
    required: parameter.required,
    advanced: parameter.advanced,
    description: parameter.description,
    default: shown(WIDGETS[parameter.type] ?? "text", parameter.default),
    options: parameter.options ?? [],
    min: parameter.min,
    max: parameter.max,
    format: "csv",
    columns: [],
  };
}

function ofInput(input: InputView): Part {
  const table = input.role === "samplesheet" || (input.role === "raw_text" && (input.format === "csv" || input.format === "tsv"));
  const widget = input.role === "env_map" ? "env_map" : table ? "table" : input.role === "raw_text" ? "textarea" : "text";
  return {
    group: "inputs",
    name: input.name,
    label: input.name,
    widget,
    required: input.required,
    advanced: false,
    description: input.description,
    default: input.default,
    options: [],
    min: null,
    max: null,
    format: input.format === "tsv" ? "tsv" : "csv",
    columns: input.columns,
  };
}

/** A value as the form shows it; null for none. */
export function shown(widget: Part["widget"], value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (widget === "env_map" && typeof value === "object") {
    return Object.entries(value).map(([name, each]) => `${name}=${String(each)}`).join("\n");
  }
  return typeof value === "object" ? JSON.stringify(value, null, 2) : String(value as string | number | boolean);
}

export function firstValues(parts: readonly Part[]): Values {
  return Object.fromEntries(parts.map((part) => [keyOf(part), part.default ?? (part.widget === "bool" ? "false" : "")]));
}

/** What of the values the browser keeps. */
export function keptOf(parts: readonly Part[], values: Values): Values {
  const environments = parts.filter(({ widget }) => widget === "env_map").map(keyOf).filter((key) => Object.hasOwn(values, key));
  return { ...values, ...Object.fromEntries(environments.map((key) => [key, withoutSecrets(values[key] ?? "")])) };
}

export interface FormRequest {
  params: Record<string, unknown>;
  inputs: Record<string, unknown>;
}

/**
 * The request of a form, and what is wrong by the keys of the parts. What is empty, or as the definition has it, is left
 * to the definition: its own values may be written in the language of templates.
 */
export function requestOf(parts: readonly Part[], values: Values): { request: FormRequest; problems: Problems } {
  const request: FormRequest = { params: {}, inputs: {} };
  const problems: Record<string, string> = {};
  for (const part of parts) {
    const value = values[keyOf(part)] ?? "";
    if (value === "") {
      if (part.required && part.default === null) problems[keyOf(part)] = text("parameters.value.required");
      continue;
    }
    if (value === part.default) continue;
    const parsed = parse(part, value);
    if (parsed.problem === null) request[part.group][part.name] = parsed.value;
    else problems[keyOf(part)] = parsed.problem;
  }
  return { request, problems };
}

type Parsed = { value: unknown; problem: null } | { problem: string };

function parse(part: Part, value: string): Parsed {
  if (value.length > LONGEST_TEXT) return { problem: text("parameters.value.too_long") };
  switch (part.widget) {
    case "number":
      return number(part, value.trim());
    case "bool":
      return { value: value === "true", problem: null };
    case "enum": {
      const option = part.options.find((each) => String(each) === value);
      return option === undefined ? { problem: text("parameters.value.option") } : { value: option, problem: null };
    }
    case "env_map":
      return environment(value);
    case "json":
    case "json_object":
      return json(part, value);
    case "textarea":
    case "table":
      return { value, problem: null };
    case "text":
      return value.includes("\n") || value.length > LONGEST_LINE
        ? { problem: text("parameters.value.one_line") }
        : { value, problem: null };
  }
}

function number({ min, max }: Part, value: string): Parsed {
  if (!NUMBER.test(value)) return { problem: text("parameters.value.number") };
  const found = Number(value);
  if (min !== null && found < min) return { problem: text("parameters.value.least", { min }) };
  if (max !== null && found > max) return { problem: text("parameters.value.most", { max }) };
  return { value: found, problem: null };
}

function environment(value: string): Parsed {
  const lines = value.split("\n").filter((line) => line.trim() !== "");
  if (lines.length > MOST_VARIABLES) return { problem: text("parameters.value.too_long") };
  const entries = lines.map((line) => [line.slice(0, Math.max(0, line.indexOf("="))), line.slice(line.indexOf("=") + 1)] as const);
  const bad = entries.find(([name]) => !VARIABLE.test(name));
  if (bad !== undefined) return { problem: text("parameters.value.variable") };
  return { value: Object.fromEntries(entries), problem: null };
}

function json({ widget }: Part, value: string): Parsed {
  try {
    const found: unknown = JSON.parse(value);
    if (widget === "json") return { value, problem: null };
    const isObject = typeof found === "object" && found !== null && !Array.isArray(found);
    return isObject ? { value: found, problem: null } : { problem: text("parameters.value.object") };
  } catch {
    return { problem: text("parameters.value.json") };
  }
}

const OF_KEY = /^([A-Za-z0-9_-]{1,40}\.)?([a-z][a-z0-9_]{0,63}): /;

/** What the service says of a value, by the key of its part; null where it says it of no part. */
export function ofService(parts: readonly Part[], detail: string): Problems | null {
  const found = OF_KEY.exec(detail);
  const part = found === null ? undefined : parts.find(({ name }) => name === `${found[1] ?? ""}${found[2]}`);
  return found === null || part === undefined ? null : { [keyOf(part)]: detail.slice(found[0].length) };
}
