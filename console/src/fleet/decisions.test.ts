import { expect, test } from "vitest";
import type { EventRecord } from "../live/event";
import { decisionOf, lacksAlternatives } from "./decisions";

const ALTERNATIVE = { shape: "memory-xl", usd_per_hour: 2.5, verdict: "costlier", text: "It costs more." };

function event(...changes: object[]): EventRecord {
  const data = { kind: "scale.decided", generation: 7, changes: changes.map((change) => ({ shape: "general-xs", replicas_before: 0, replicas_after: 1, ...change })) };
  return { id: "1", time: "2026-03-01T12:00:00Z", type: "cloud.clusterra.scale.decided", subject: "desired", data } as unknown as EventRecord;
}

test("a decision tells the shapes that were compared, and what a job would pay of them where a worker holds it", () => {
  const decision = decisionOf(event({ job_ids: ["7"], alternatives: [ALTERNATIVE] }));

  expect(decision?.changes[0]?.alternatives).toEqual([{ ...ALTERNATIVE, job_usd_per_hour: null }]);
  expect(decision && lacksAlternatives(decision)).toBe(false);
});

test("a verdict of a newer release hides the comparison, and not the decision", () => {
  const decision = decisionOf(event({ job_ids: ["7"], alternatives: [{ ...ALTERNATIVE, verdict: "too_far" }] }));

  expect(decision?.generation).toBe(7);
  expect(decision?.changes[0]?.alternatives).toEqual([]);
});

test.each([
  ["of an older release", { job_ids: ["7"] }, true],
  ["for a warm pool", {}, false],
  ["that removes workers", { job_ids: ["7"], replicas_before: 2 }, false],
])("a decision %s", (_, change, lacks) => {
  const decision = decisionOf(event(change));

  expect(decision && lacksAlternatives(decision)).toBe(lacks);
});
