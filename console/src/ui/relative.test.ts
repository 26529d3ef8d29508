import { expect, test } from "vitest";
import { relative } from "./format";

const NOW = new Date("2026-11-27T12:00:00Z");
const DAY = 86_400;

function at(seconds: number): string {
  return relative(new Date(NOW.getTime() + seconds * 1000), NOW);
}

test("what is to come is rounded, so that a link of 7 days says 7 a second later", () => {
  expect(at(7 * DAY - 1)).toBe("in 7 days");
  expect(at(30 * DAY - 2)).toBe("in 30 days");
  expect(at(3_600 - 1)).toBe("in 60 min.");
  expect(at(6.2 * DAY)).toBe("in 6 days");
});

test("what is over is a whole number of units ago", () => {
  expect(at(-119)).toBe("1 min. ago");
  expect(at(-7 * DAY - 1)).toBe("7 days ago");
});
