import { describe, expect, test } from "vitest";
import { requestOf, type Part } from "../parameters/values";
import { formValues, withOthers } from "./storedValues";

function part(group: Part["group"], name: string, widget: Part["widget"]): Part {
  return {
    group,
    name,
    label: name,
    widget,
    required: false,
    advanced: false,
    description: "",
    default: null,
    options: [],
    min: null,
    max: null,
    format: "csv",
    columns: [],
  };
}

const PARTS = [
  part("params", "size", "number"),
  part("params", "fast", "bool"),
  part("params", "settings", "json_object"),
  part("inputs", "reads", "text"),
  part("inputs", "flat", "text"),
  part("params", "empty", "text"),
];

describe("the values of a schedule in its form", () => {
  const stored = {
    params: { size: 3, fast: true, settings: { a: [1] }, flat: "data/x", unknown: { kept: 1 } },
    inputs: { reads: "data/reads.fq", other: "data/y" },
  };

  test("come back from it as they were, with those that it does not ask for", () => {
    const { request, problems } = requestOf(PARTS, formValues(PARTS, stored));

    expect(problems).toEqual({});
    expect(withOthers(PARTS, stored, request)).toEqual({
      params: { size: 3, fast: true, settings: { a: [1] }, unknown: { kept: 1 } },
      inputs: { reads: "data/reads.fq", flat: "data/x", other: "data/y" },
    });
  });

  test("that are taken out of the form are taken out of the schedule", () => {
    const { request } = requestOf(PARTS, { ...formValues(PARTS, stored), "params.size": "" });

    expect(withOthers(PARTS, stored, request).params).not.toHaveProperty("size");
  });
});
