import { describe, expect, it } from "vitest";
import type { JobWithCost } from "../../../api/schema";
import { latestEnd, shortened, stagesOf } from "./stages";

const job: JobWithCost = {
  job_id: "1", name: "a", user: "ada", uid: 1, state: "RUNNING", partition: "main",
  submitted_at: "2026-01-01T00:00:00Z", started_at: "2026-01-01T00:00:40Z", time_limit_seconds: 600,
};

describe("the stages of a job", () => {
  it("are those that the API tells, without those to come", () => {
    const told = stagesOf(job, [
      { stage: "submitted", at: job.submitted_at },
      { stage: "worker_started", at: "2026-01-01T00:00:05Z", seconds_since_previous: 4.5, worker: "w-1", shape: "xs" },
      { stage: "running", at: null },
    ]);
    expect(told.map(({ name, after, details }) => [name, after, details])).toEqual([
      ["submitted", null, ""],
      ["worker_started", 4.5, "w-1 · xs"],
    ]);
  });

  it("tell a worker and its shape once", () => {
    const at = job.submitted_at;
    const told = stagesOf(job, [
      { stage: "decided", at, shape: "xs", reason: "1 more", detail: "xs from 0 to 1 workers" },
      { stage: "worker_started", at, worker: "w-1", shape: "xs" },
      { stage: "registered", at, worker: "w-1", shape: "xs", detail: "2 CPUs" },
      { stage: "running", at, worker: "w-1" },
      { stage: "running", at, worker: "w-2" },
    ]);
    expect(told.map(({ details }) => details)).toEqual(["1 more · xs from 0 to 1 workers", "w-1", "2 CPUs", "", "w-2"]);
  });

  it("are one where many workers of an array pass the same", () => {
    const at = (second: number) => `2026-01-01T00:00:0${second}Z`;
    const started = [1, 2, 3].map((second) => ({ stage: "worker_started" as const, at: at(second), worker: `w-${second}` }));
    const registered = [4, 5].map((second) => ({ stage: "registered" as const, at: at(second), worker: `w-${second}` }));
    const line = shortened(stagesOf(job, [{ stage: "submitted", at: at(0) }, ...started, ...registered]));
    expect(line.map(({ name, at: when, after, times }) => [name, when, after, times])).toEqual([
      ["submitted", at(0), null, 1],
      ["worker_started", at(3), 3, 3],
      ["registered", at(4), 1, 1],
      ["registered", at(5), 1, 1],
    ]);
  });

  it("are those of its record until then", () => {
    expect(stagesOf(job, undefined).map(({ name, after }) => [name, after])).toEqual([["submitted", null], ["running", 40]]);
  });

  it("end at the time limit while the job runs", () => {
    expect(latestEnd(job)).toBe("2026-01-01T00:10:40.000Z");
    expect(latestEnd({ ...job, state: "COMPLETED" })).toBeNull();
  });
});
