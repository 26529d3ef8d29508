import { expect, test } from "vitest";
import { indexOfKey, type KeyedRows } from "./scrollAnchoring";

function rows(...keys: string[]): KeyedRows {
  return { count: keys.length, keyAt: (index) => keys[index] ?? index };
}

test.each([
  ["new rows above it", rows("new", "newer", "a", "b", "c"), 3],
  ["rows gone above it", rows("b", "c"), 0],
  ["no change", rows("a", "b", "c"), 1],
  ["new rows below it", rows("a", "b", "c", "d"), 1],
])("a row is found again with %s", (_, now, place) => {
  expect(indexOfKey("b", 1, now)).toBe(place);
});

test("a row that is gone has no place", () => {
  expect(indexOfKey("b", 1, rows("a", "c"))).toBeNull();
  expect(indexOfKey("b", 9, rows())).toBeNull();
});
