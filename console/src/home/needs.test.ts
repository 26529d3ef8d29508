import { describe, expect, test } from "vitest";
import type { Job } from "../api/schema";
import { needs } from "./needs";

const NOW = Date.parse("2026-01-02T00:00:00Z");

function failed(id: number, ended: string | null, user = "ada"): Job {
  return { job_id: String(id), name: "fit", user, uid: 1, state: "FAILED", partition: "main", submitted_at: "2026-01-01T00:00:00Z", ended_at: ended } as Job;
}

function found(jobs: Job[]) {
  return needs({ user: "ada", jobs, cluster: undefined, quotas: [], now: NOW });
}

describe("what needs a person", () => {
  test("own jobs that failed in the last day do, and older ones and others' do not", () => {
    const jobs = [
      failed(1, "2026-01-01T23:00:00Z"),
      failed(2, "2025-12-31T23:00:00Z"),
      failed(3, "2026-01-01T23:00:00Z", "grace"),
    ];

    expect(found(jobs)).toEqual([{ kind: "failed", job: jobs[0] }]);
  });

  test("of many failed jobs the first five are named", () => {
    const jobs = Array.from({ length: 50 }, (_, index) => failed(index + 1, "2026-01-01T23:00:00Z"));

    expect(found(jobs)).toHaveLength(5);
  });
});
