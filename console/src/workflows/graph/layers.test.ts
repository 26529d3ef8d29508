import { expect, test } from "vitest";
import { drawing, type Step } from "./layers";

const step = (step_id: string, ...depends_on: string[]): Step => ({ step_id, depends_on });

test("a step is behind the longest way to it", () => {
  const { places, edges, layers, rows } = drawing([step("a"), step("b", "a"), step("c", "a", "b"), step("d", "a")]);
  expect(places.map(({ id, layer, row }) => [id, layer, row])).toEqual([
    ["a", 0, 0],
    ["b", 1, 0],
    ["c", 2, 0],
    ["d", 1, 1],
  ]);
  expect(edges.map(({ from, to }) => from.id + to.id)).toEqual(["ab", "ac", "bc", "ad"]);
  expect([layers, rows]).toEqual([3, 2]);
});

test("no steps make an empty drawing", () => {
  expect(drawing([])).toEqual({ places: [], edges: [], layers: 0, rows: 0 });
});

test("steps that wait for each other, for themselves or for none that there is are drawn all the same", () => {
  const { places } = drawing([step("a", "b"), step("b", "a"), step("c", "c"), step("d", "none")]);
  expect(places).toHaveLength(4);
});

test("in any order of any steps, each has a place of its own, and every edge leads to a later layer", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  for (let round = 0; round < 200; round += 1) {
    const size = 1 + random(64);
    const steps = Array.from({ length: size }, (_, index) =>
      step(`s${index}`, ...Array.from({ length: random(4) }, () => `s${random(Math.max(1, index))}`).filter((id) => id !== `s${index}`)),
    ).toSorted(() => random(3) - 1);
    const { places, edges } = drawing(steps);
    expect(new Set(places.map(({ layer, row }) => `${layer} ${row}`)).size).toBe(size);
    expect(edges).toHaveLength(steps.reduce((sum, each) => sum + new Set(each.depends_on).size, 0));
    for (const { from, to } of edges) expect(from.layer).toBeLessThan(to.layer);
  }
});
