import { expect, test } from "vitest";
import type { RunView, StepView } from "../api/schema";
import { jobsOf, missingJobs } from "./runs";

function run(...jobs: (string | null)[]): RunView {
  return { steps: jobs.map((job_id, index) => ({ step_id: String(index), job_id }) as StepView) } as RunView;
}

test("the jobs of steps that a page of jobs has not are read one by one, the latest steps first", () => {
  expect(missingJobs(jobsOf(run("1", "2", null, "3", "4")), new Set(["1", "3"]))).toEqual(["4", "2"]);
});
