import { describe, expect, it } from "vitest";
import type { JobExplanation, JobWithCost } from "../../api/schema";
import { latestEnd, stagesOf } from "./stages";

const job: JobWithCost = {
  job_id: "1", name: "a", user: "ada", uid: 1, state: "RUNNING", partition: "main",
  submitted_at: "2026-01-01T00:00:00Z", started_at: "2026-01-01T00:00:40Z", time_limit_seconds: 600,
};
const why: JobExplanation = {
  job_id: "1", state: "running", text: "", as_of: "2026-01-01T00:01:00Z",
  bought: [{ decided_at: "2026-01-01T00:00:00.2Z", generation: 1, shape: "xs", workers: 1, reason: "" }],
};

describe("the stages of a job", () => {
  it("are in the order in which they passed, with the time between them", () => {
    expect(stagesOf(job, why, []).map(({ name, after }) => [name, after])).toEqual([
      ["submitted", null],
      ["decided", 0.2],
      ["running", 39.8],
    ]);
  });

  it("within one second of Slurm are in the order of their kind", () => {
    const quick = { ...job, started_at: job.submitted_at, ended_at: job.submitted_at, state: "COMPLETED" };
    expect(stagesOf(quick, why, []).map(({ name }) => name)).toEqual(["submitted", "decided", "running", "ended"]);
  });

  it("have requeues, and leave out a decision about another job before", () => {
    const later = { ...job, submitted_at: "2026-01-01T00:00:10Z" };
    const told = [{ kind: "job.requeued", time: "2026-01-01T00:00:20Z" }, { kind: "job.running", time: "2026-01-01T00:00:30Z" }];
    expect(stagesOf(later, why, told).map(({ name }) => name)).toEqual(["submitted", "requeued", "running"]);
  });

  it("end at the time limit while the job runs", () => {
    expect(latestEnd(job)).toBe("2026-01-01T00:10:40.000Z");
    expect(latestEnd({ ...job, state: "COMPLETED" })).toBeNull();
  });
});
