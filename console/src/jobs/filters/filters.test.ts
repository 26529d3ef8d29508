import * as v from "valibot";
import { describe, expect, it } from "vitest";
import type { Job } from "../../api/schema";
import { countsFilter, JobsSearch, sinceItsDay } from "./filters";

const KNOWN = new Date("2026-01-01T00:00:00Z");

describe("the filter of counts", () => {
  it("is the same filter, with both days", () => {
    const filter = countsFilter({ users: ["ada"], find: "#42", since: "2026-03-01", until: "2026-03-01" }, KNOWN);
    expect(filter).toMatchObject({ user: "ada", search: "42" });
    expect(Date.parse(filter?.submitted_before ?? "") - Date.parse(filter?.submitted_after ?? "")).toBe(86_400_000 - 1);
  });

  it("is none where the API has none, and whatever the states", () => {
    expect(countsFilter({ users: ["ada", "grace"] }, KNOWN)).toBeNull();
    expect(countsFilter({ states: ["failed"] }, KNOWN)).toEqual({ submitted_after: KNOWN.toISOString() });
  });
});

it("a day that no month has is left out of the address", () => {
  expect(v.parse(JobsSearch, { since: "2026-02-31", until: "2026-03-01" })).toEqual({ until: "2026-03-01" });
});

it("the sum is that of the filter's day", () => {
  const jobs = ["2026-02-20T12:00:00Z", "2026-03-02T12:00:00Z", "2026-03-04T12:00:00Z"].map((submitted_at) => ({ submitted_at }) as Job);
  expect(sinceItsDay(jobs, { since: "2026-03-01", states: ["failed"] })).toEqual({ day: "2026-03-01", total: 2 });
  expect(sinceItsDay(jobs, { until: "2026-03-03" })).toBeNull();
});
