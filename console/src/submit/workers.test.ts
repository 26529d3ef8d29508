import { expect, test } from "vitest";
import type { JobEstimate } from "../api/schema";
import { workersText } from "./workers";

type Worker = JobEstimate["workers"][number];
const NEW: Worker = { kind: "new", shape: "compute-xs", count: 1 };
const RUNNING: Worker = { kind: "node", shape: "general-xs", count: 2 };

test.each([
  ["boot", [NEW], "1 × compute-xs, new"],
  ["jobs", [RUNNING, { kind: "ordered", shape: null, count: null }], "2 × general-xs, running, another shape, ordered"],
  ["unknown", [], "not known yet"],
] as const)("an estimate that waits for %s names its workers", (wait, workers, words) => {
  expect(workersText({ wait, workers: [...workers] })).toBe(words);
});

test("while a cluster is paused no worker is told as new: it comes once the cluster is resumed", () => {
  expect(workersText({ wait: "paused", workers: [NEW] })).toBe("none while the cluster is paused; after that 1 × compute-xs");
  expect(workersText({ wait: "paused", workers: [] })).toBe("none while the cluster is paused");
  expect(workersText({ wait: "paused", workers: [RUNNING, NEW] })).toBe("2 × general-xs, running");
});
