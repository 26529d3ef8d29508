import { expect, test } from "vitest";
import type { CostEntry } from "../api/schema";
import { inJobOrder, jobKey } from "./jobOrder";

test("costs by job are in the order of the numbers of jobs and tasks", () => {
  const ids = ["24_3", "8", null, "9_10", "9_1", "9", "9_2", "25", "9_0"];
  const rows = ids.map((job_id) => ({ job_id, purpose: job_id === null ? "idle" : "job" }) as CostEntry);
  expect(inJobOrder(rows).map(({ job_id }) => job_id)).toEqual(["8", "9", "9_0", "9_1", "9_2", "9_10", "24_3", "25", null]);
});

test("keys of jobs are exact for the largest ids of Slurm", () => {
  expect(Number.isSafeInteger(jobKey("67108863_4000000"))).toBe(true);
  expect(jobKey("x")).toBeNull();
  expect(jobKey(null)).toBeNull();
});
