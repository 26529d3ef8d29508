import { expect, test } from "vitest";
import type { Cost, RunView, StepView } from "../api/schema";
import { attemptsOf, costOf } from "./runCost";

function cost(amount: string | null, more: Partial<Cost> = {}): Cost {
  return { total: amount === null ? null : { amount, currency: "USD" }, as_of: "2026-01-01T00:00:00Z", stale: false, unknown: false, ...more };
}

test("a run costs what all its jobs do, those of earlier attempts too", () => {
  const steps = [{ job_id: "3", earlier_jobs: ["1"] }, { job_id: null, earlier_jobs: [] }, { job_id: "2", earlier_jobs: [] }] as unknown as StepView[];
  const jobs = attemptsOf({ steps } as RunView);
  expect([...jobs]).toEqual(["1", "3", "2"]);
  const costs = new Map([["1", cost("0.1")], ["2", cost("0.2", { as_of: "2025-12-31T00:00:00Z" })], ["3", cost("0.4")], ["4", cost("9")]]);
  const found = costOf(jobs, costs);
  expect(found.amount).toBeCloseTo(0.7);
  expect(found).toMatchObject({ unknown: 0, asOf: "2025-12-31T00:00:00Z" });
});

test("what is not known of it is counted", () => {
  const found = costOf(new Set(["1", "2", "3", "4"]), new Map([["1", cost("0.1")], ["2", cost(null)], ["3", cost("0.2", { unknown: true })]]));
  expect(found.amount).toBeCloseTo(0.3);
  expect(found.unknown).toBe(3);
});

test("a run without jobs costs nothing", () => {
  expect(costOf(new Set(), new Map())).toEqual({ amount: 0, unknown: 0, asOf: null });
});
