import { describe, expect, test } from "vitest";
import { largest, stacked, type ChartValues } from "./stack";

/** Numbers that look random and are the same in each run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648);
}

function series(seed: number, count: number, moments: number): ChartValues[] {
  const next = numbers(seed);
  return Array.from({ length: count }, (_, index) => ({
    id: String(index),
    label: String(index),
    values: Array.from({ length: moments }, () => (next() % 5 === 0 ? null : next() % 100)),
  }));
}

describe("a stack", () => {
  test("ends with the sum of what is known, and never falls from below to above", () => {
    for (let seed = 1; seed <= 100; seed += 1) {
      const given = series(seed, 1 + (seed % 6), 9);
      const heights = stacked(given, 9);
      for (let at = 0; at < 9; at += 1) {
        const known = given.map(({ values }) => values[at] ?? null).filter((value) => value !== null);
        expect(heights.at(-1)?.[at]).toBe(known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0));
        const column = heights.map((height) => height[at] ?? 0);
        expect(column).toEqual(column.toSorted((one, other) => one - other));
      }
    }
  });
});

describe("the largest", () => {
  test("are kept in their order, and the sum of all stays", () => {
    const sizes = [3, 9, 1, 7, 5];
    const kept = largest(sizes, 3, (size) => size, (rest) => rest.reduce((sum, size) => sum + size, 0));

    expect(kept).toEqual([9, 7, 9]);
  });

  test("are all where there are few", () => {
    expect(largest([1, 2], 2, (size) => size, () => 0)).toEqual([1, 2]);
  });
});
