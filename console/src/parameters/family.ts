/** What the form of a preset or a workflow asks for: the parts of the templates that it is made of. */

import * as v from "valibot";
import type { TemplateView } from "../api/schema";
import { keyOf, partsOf, shown, type Part } from "./values";

const Steps = v.object({
  steps: v.array(
    v.object({
      step_id: v.string(),
      template_id: v.string(),
      param_overrides: v.optional(v.record(v.string(), v.unknown()), {}),
      input_overrides: v.optional(v.record(v.string(), v.unknown()), {}),
      display_name: v.nullish(v.string()),
    }),
  ),
});

/** The parts of any template. `all` are those of the workspace, among which its relatives are. */
export function allParts(template: TemplateView, definition: unknown, all: readonly TemplateView[]): Part[] {
  if (template.kind === "workflow") return ofSteps(definition, all);
  if (template.kind === "preset") return ofPreset(template, all);
  return partsOf(template);
}

function ofPreset(preset: TemplateView, all: readonly TemplateView[]): Part[] {
  const parent = parentOf(preset, all);
  if (parent === undefined) return partsOf(preset);
  const own = new Map(partsOf(preset).map((part) => [keyOf(part), part]));
  const given = preset.static_values as Record<string, unknown>;
  return partsOf(parent).map((part) => {
    const known = own.get(keyOf(part)) ?? part;
    return Object.hasOwn(given, part.name) ? { ...known, default: shown(part.widget, given[part.name]) } : known;
  });
}

/** The template that a preset is for. */
export function parentOf(preset: TemplateView, all: readonly TemplateView[]): TemplateView | undefined {
  const jobs = all.filter(({ kind }) => kind === "batch");
  if (preset.parent_id !== null) return jobs.find(({ id }) => id === preset.parent_id);
  const names = preset.parameters.map(({ name }) => name);
  return (
    jobs.find(({ pipeline_repo }) => pipeline_repo !== null && pipeline_repo === preset.pipeline_repo) ??
    jobs.find(({ parameters }) => {
      const known = parameters.map(({ name }) => name);
      return known.includes("pipeline_repo") && names.every((name) => known.includes(name));
    })
  );
}

function ofSteps(definition: unknown, all: readonly TemplateView[]): Part[] {
  const read = v.safeParse(Steps, definition);
  if (!read.success) return [];
  return read.output.steps.flatMap((step) => {
    const template = all.find(({ id }) => id === step.template_id);
    if (template === undefined) return [];
    return partsOf(template).map((part) => {
      const given = part.group === "params" ? step.param_overrides : step.input_overrides;
      const known = Object.hasOwn(given, part.name) ? shown(part.widget, given[part.name]) : part.default;
      return {
        ...part,
        name: `${step.step_id}.${part.name}`,
        label: `${step.display_name ?? step.step_id}: ${part.label}`,
        default: known,
        // What a step needs and has been given is asked for in second place.
        advanced: part.advanced || !part.required || known !== null,
      };
    });
  });
}
