import { expect, test } from "vitest";
import type { Purchase, Stage } from "../../api/schema";
import { boughtFor } from "./bought";

const AT = "2026-01-01T00:00:00Z";
const PURCHASE: Purchase = { decided_at: AT, generation: 4, shape: "xs", workers: 2, reason: "for pending job 2" };

function decided(generation: number, shape: string): Stage {
  return { stage: "decided", at: AT, shape, decision_generation: generation, reason: "for pending job 2", seconds_since_previous: 1, detail: "", worker: null };
}

test("a job that has ended keeps its own decisions", () => {
  const submitted: Stage = { ...decided(1, "xs"), stage: "submitted" };
  expect(boughtFor([submitted, decided(5, "l"), decided(4, "xs")], []).map(({ decision, shape, workers }) => [decision, shape, workers])).toEqual([
    [4, "xs", null],
    [5, "l", null],
  ]);
});

test("a purchase that both tell of is one, with its workers", () => {
  expect(boughtFor([decided(4, "xs"), decided(4, "l")], [PURCHASE])).toEqual([
    { decision: 4, at: AT, shape: "xs", workers: 2, reason: "for pending job 2" },
    { decision: 4, at: AT, shape: "l", workers: null, reason: "for pending job 2" },
  ]);
  expect(boughtFor([], [PURCHASE])).toHaveLength(1);
});

test("a job that no decision named has none", () => {
  expect(boughtFor([{ ...decided(0, "xs"), at: null, shape: null, decision_generation: null }], [])).toEqual([]);
});
