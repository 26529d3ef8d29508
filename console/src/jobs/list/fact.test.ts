import { describe, expect, it } from "vitest";
import type { Job } from "../../api/schema";
import { factOf, isBefore, withFact } from "./fact";

const SUBMITTED = "2026-01-01T00:00:00Z";

function job(state: string, more: Partial<Job> = {}): Job {
  return { job_id: "8", name: "fit", user: "ada", uid: 1, state, partition: "main", submitted_at: SUBMITTED, restarts: 0, ...more };
}

function fact(state: string, more: object = {}) {
  const found = factOf({ id: "1", subject: "8", time: "", position: 1, data: { kind: "job.running", ...job(state), ...more } });
  if (found === null) throw new Error("no fact");
  return found;
}

describe("what an event tells of a job", () => {
  it("never takes it back in its run", () => {
    // The job was read when it had ended; what happened before is told after that.
    const done = job("COMPLETED", { exit_code: 0 });
    expect([fact("PENDING"), fact("RUNNING"), fact("COMPLETED", { exit_code: 0 })].reduce(withFact, done)).toMatchObject({ state: "COMPLETED", exit_code: 0 });
    expect(withFact(done, fact("RUNNING"))).toBe(done);
    expect(withFact(job("PENDING"), fact("RUNNING"))).toMatchObject({ state: "RUNNING" });
  });

  it("is another run after a requeue, whose events count", () => {
    const again = withFact(job("FAILED"), fact("PENDING", { restarts: 1, submitted_at: "2026-01-01T01:00:00Z" }));
    expect(again).toMatchObject({ state: "PENDING", restarts: 1 });
    expect(withFact(again, fact("FAILED"))).toBe(again);
    expect(withFact(again, fact("RUNNING", { restarts: 1, submitted_at: "2026-01-01T01:00:00Z" }))).toMatchObject({ state: "RUNNING" });
  });

  it("counts where the state before cannot be compared", () => {
    expect(withFact(job("UNKNOWN"), fact("PENDING"))).toMatchObject({ state: "PENDING" });
    expect(isBefore(job("RUNNING"), job("SUSPENDED"))).toBe(false);
    expect(isBefore(fact("RUNNING", { restarts: undefined }), job("COMPLETED", { restarts: 2 }))).toBe(true);
  });
});
