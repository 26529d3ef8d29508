import { describe, expect, test } from "vitest";
import { rowOf } from "./rows";

function event(data: { kind: string } & Record<string, unknown>, subject = "7") {
  return { id: "e1", subject, time: "2026-01-01T00:00:00Z", data };
}

describe("the row of an event", () => {
  test("of a job leads to the job, and tells its owner", () => {
    const row = rowOf(event({ kind: "job.failed", job_id: "7", name: "fit", user: "ada", state: "FAILED", exit_code: 2 }));

    expect(row).toMatchObject({ subject: "7 fit", who: "ada", details: "Failed · exit code 2", target: { page: "job", job: "7" } });
  });

  test("of a job has the words of all pages for its state, and for why it failed or is held", () => {
    const details = (fact: object) => rowOf(event({ kind: "job.changed", job_id: "7", ...fact })).details;

    expect(details({ state: "RUNNING", nodes: ["compute-xs-og4zk"] })).toBe("Running · compute-xs-og4zk");
    expect(details({ state: "PENDING", reason: "JobHeldUser" })).toBe("Waiting · Held by its owner");
    expect(details({ state: "PENDING", reason: "Priority" })).toBe("Waiting");
    expect(details({ state: "TIMEOUT" })).toBe("Failed · It reached its time limit");
    expect(details({ state: "COMPLETED", exit_code: 0 })).toBe("Done");
    expect(details({})).toBe("");
  });

  test("of an act tells who acted, and not whose job it is", () => {
    const row = rowOf(event({ kind: "action.cancel", job_id: "7", name: "fit", user: "ada", actor: "grace" }));

    expect(row.who).toBe("grace");
  });

  test("of a run leads to the run, and tells which step failed and how the steps ended", () => {
    const fact = { kind: "run.failed", run_id: "ab12", name: "nightly", user: "ada", steps: { completed: 2, failed: 1, odd: 1 }, failed_step: "align" };

    expect(rowOf(event(fact, "ab12"))).toMatchObject({
      subject: "nightly",
      who: "ada",
      details: "Step align failed · 2 completed, 1 failed, 1 odd",
      target: { page: "run", run: "ab12" },
    });
  });

  test("of a decision tells each shape", () => {
    const changes = [{ shape: "compute-xs", replicas_before: 0, replicas_after: 2, reason: "2 jobs wait" }];

    expect(rowOf(event({ kind: "scale.decided", changes }, "desired")).details).toBe("compute-xs 0 → 2: 2 jobs wait");
  });

  test("of a token has its name, and of a shared link leads to its job", () => {
    const token = event({ kind: "token.revoked", subject: "60a3", actor: "ada", detail: "ci" }, "60a3");
    const link = event({ kind: "link.created", subject: "77f0", actor: "ada", detail: "42" }, "77f0");

    expect(rowOf(token)).toMatchObject({ subject: "60a3", details: "ci" });
    expect(rowOf(link)).toMatchObject({ details: "42", target: { page: "job", job: "42" } });
  });

  test("of a changed budget has the change, and no threshold", () => {
    const fact = { kind: "budget.changed", actor: "ada", subject: "user:grace", detail: "0.001 USD a month" };

    expect(rowOf(event(fact)).details).toBe("0.001 USD a month");
  });

  test("of a budget has the threshold and the costs that reached it", () => {
    const fact = { kind: "budget.threshold", subject: "user:ada", scope: "user", name: "ada", month: "2026-01", percent: 80, limit_micro_usd: 10_000_000, micro_usd: 8_500_000 };

    expect(rowOf(event({ ...fact, measure: "actual" })).details).toBe("Costs have reached 80% of the budget: 8.50 USD, limit 10.00 USD");
    expect(rowOf(event({ ...fact, measure: "forecast" })).details).toBe("The forecast has reached 80% of the budget: 8.50 USD, limit 10.00 USD");
  });

  test("of a kind that a newer release adds has its subject", () => {
    expect(rowOf(event({ kind: "robot.sang" }, "r2"))).toMatchObject({ subject: "r2", target: null });
  });

  test("whose data cannot be read hides nothing else of it", () => {
    expect(rowOf(event({ kind: "job.failed", job_id: 7 }))).toMatchObject({ kind: "job.failed", subject: "7", who: "" });
  });
});
