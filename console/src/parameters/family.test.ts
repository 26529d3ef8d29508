import { expect, test } from "vitest";
import type { TemplateView } from "../api/schema";
import { allParts } from "./family";

const parameter = { name: "constructor", label: "c", type: "text", required: true, advanced: false, description: "", default: null, options: null, min: null, max: null };
const common = { parameters: [parameter], inputs: [], static_values: {}, parent_id: null, pipeline_repo: null };

test("a parameter named like a property of every object has the value that was given, and else none", () => {
  const parent = { ...common, id: "parent", kind: "batch" } as unknown as TemplateView;
  const preset = { ...common, id: "preset", kind: "preset", parent_id: "parent" } as unknown as TemplateView;
  expect(allParts(preset, null, [parent, preset])[0]?.default).toBeNull();
  expect(allParts({ ...preset, static_values: { constructor: "x" } }, null, [parent])[0]?.default).toBe("x");
  const flow = { ...common, id: "flow", kind: "workflow" } as unknown as TemplateView;
  const definition = { steps: [{ step_id: "one", template_id: "parent", param_overrides: {} }] };
  expect(allParts(flow, definition, [parent])[0]).toMatchObject({ name: "one.constructor", default: null, advanced: false });
});
