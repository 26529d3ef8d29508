import { expect, test } from "vitest";
import { isWholeDate } from "./dateEntry";

test.each([
  ["", false],
  ["0002-11-27", false],
  ["0202-11-27", false],
  ["2026-11-27", true],
  ["2026-11-27T12:00", true],
  ["12026-11-27", false],
])("%s is a whole date: %s", (value, whole) => {
  expect(isWholeDate(value, { valid: true })).toBe(whole);
  expect(isWholeDate(value, { valid: false })).toBe(false);
});
