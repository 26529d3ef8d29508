import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { fillOfShape, fillOfUse } from "./fills";

const SHAPES = Array.from({ length: 20 }, (_, place) => `shape-${place}`);

describe("the fill of a shape", () => {
  test("is its own, whichever shapes a chart has", () => {
    const fills = SHAPES.map((shape) => JSON.stringify(fillOfShape(shape, SHAPES)));

    expect(new Set(fills).size).toBe(SHAPES.length);
    expect(fillOfShape("shape-3", [...SHAPES, "new"])).toEqual(fillOfShape("shape-3", SHAPES));
  });

  test("of costs for no job has the pattern of their use, and is no other one's", () => {
    const fills = SHAPES.flatMap((shape) => (["busy", "booting", "idle", "unattributed"] as const).map((use) => JSON.stringify(fillOfShape(shape, SHAPES, use))));

    expect(new Set(fills).size).toBe(fills.length);
    expect(fillOfShape("shape-9", SHAPES, "idle").patterns).toContain(fillOfUse("idle").patterns[0]);
  });

  test("is known by its name where the cluster no longer has the shape", () => {
    expect(fillOfShape("old", SHAPES)).toEqual(fillOfShape("old", SHAPES.toReversed()));
  });
});

const CSS = readFileSync(join(import.meta.dirname, "..", "theme", "tokens.css"), "utf8");

/** The colours of a theme by their tokens. */
function colours(scheme: "light" | "dark"): Record<string, string> {
  const block = new RegExp(`:root\\[data-mantine-color-scheme="${scheme}"\\] \\{([^}]*)\\}`).exec(CSS)?.[1] ?? "";
  return Object.fromEntries([...block.matchAll(/(--[\w-]+): (#[0-9a-f]{6});/g)].map(([, name = "", value = ""]) => [name, value]));
}

/** The relative luminance of WCAG 2. */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [high = 0, low = 0] = [luminance(one), luminance(other)].toSorted((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}

test.each(["light", "dark"] as const)("colours of charts and states can be read on the surfaces of the %s theme", (scheme) => {
  const tokens = colours(scheme);
  const used = Object.keys(tokens).filter((name) => /^--(chart|state)-/.test(name));

  expect(used).toHaveLength(14);
  // A worker's state is a word in the colour of its use, so that of text is needed.
  for (const name of used) for (const surface of ["--surface", "--surface-sunken"]) expect([name, surface, contrast(tokens[name] ?? "", tokens[surface] ?? "") >= 4.5]).toEqual([name, surface, true]);
});
