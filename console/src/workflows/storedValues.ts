/** The values that a schedule has: those that its form asks for, and the others, which a change of it keeps. */

import type { ScheduleView } from "../api/schema";
import { keyOf, shown, type FormRequest, type Part, type Values } from "../parameters/values";

type Stored = Pick<ScheduleView, "params" | "inputs">;

/** As the form shows them, by the keys of its parts. */
export function formValues(parts: readonly Part[], stored: Stored): Values {
  const found: Record<string, string> = {};
  for (const part of parts) {
    // A request may name inputs beside the parameters.
    const value = shown(part.widget, stored[part.group][part.name] ?? stored.params[part.name]);
    if (value !== null) found[keyOf(part)] = value;
  }
  return found;
}

/** The request of the form, with the stored values that it does not ask for. */
export function withOthers(parts: readonly Part[], stored: Stored, request: FormRequest): FormRequest {
  const asked = new Set(parts.map(({ name }) => name));
  const others = (values: Record<string, unknown>) => Object.fromEntries(Object.entries(values).filter(([name]) => !asked.has(name)));
  return { params: { ...others(stored.params), ...request.params }, inputs: { ...others(stored.inputs), ...request.inputs } };
}
