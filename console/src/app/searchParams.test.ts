import * as v from "valibot";
import { expect, test } from "vitest";
import { dayParam, jobParam, momentParam } from "./searchParams";

test.each(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00+05:00"])("%s is a moment", (moment) => {
  expect(v.parse(momentParam, moment)).toBe(moment);
});

test.each(["2026-01-01T00:00:00+05", "2026-13-01T00:00:00Z", "yesterday", "", 7, null, ["2026-01-01T00:00:00Z"]])("%j is none", (given) => {
  expect(v.parse(momentParam, given)).toBeUndefined();
});

test("days", () => {
  expect(v.parse(dayParam, "2026-02-28")).toBe("2026-02-28");
  expect(v.parse(dayParam, "2028-02-29")).toBe("2028-02-29");
  expect(v.parse(dayParam, "1970-01-01")).toBe("1970-01-01");
  for (const given of ["2026-2-28", "2026-02-31", "2026-02-29", "2026-13-01", "2026-00-10", {}]) expect(v.parse(dayParam, given)).toBeUndefined();
});

test("jobs, also as numbers", () => {
  expect(v.parse(jobParam, "9_3")).toBe("9_3");
  expect(v.parse(jobParam, 42)).toBe("42");
  for (const given of ["", "x", "9_", -1, 1.5, 1e21, {}]) expect(v.parse(jobParam, given)).toBeUndefined();
});
