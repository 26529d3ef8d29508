import { expect, it } from "vitest";
import { indexAt, movedBy } from "./moments";

it("moves by keys, and no further than to the ends", () => {
  const moved = (at: number) => ["ArrowLeft", "ArrowRight", "PageDown", "PageUp", "Home", "End"].map((key) => movedBy(key, at, 20));
  expect(moved(12)).toEqual([11, 13, 2, 20, 0, 20]);
  expect(moved(0)).toEqual([0, 1, 0, 10, 0, 20]);
  expect(movedBy("Enter", 0, 20)).toBeNull();
});

it("stays at its moment while the chart moves on", () => {
  expect(indexAt([10, 20, 30, 40], 30)).toBe(2);
  expect(indexAt([20, 30, 40, 50], 30)).toBe(1);
  expect(indexAt([40, 50], 30)).toBe(0);
});
