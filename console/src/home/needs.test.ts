import { describe, expect, test } from "vitest";
import type { BudgetView, Job, Money, QuotaView } from "../api/schema";
import { counted, figure } from "./counts";
import { needs } from "./needs";

const NOW = Date.parse("2026-01-02T00:00:00Z");

const NOTHING = { user: "ada", admin: false, jobs: [], cluster: undefined, quotas: [], budgets: [], now: NOW };

function failed(id: number, ended: string | null, user = "ada"): Job {
  return { job_id: String(id), name: "fit", user, uid: 1, state: "FAILED", partition: "main", submitted_at: "2026-01-01T00:00:00Z", ended_at: ended } as Job;
}

function found(jobs: Job[]) {
  return needs({ ...NOTHING, jobs });
}

function money(amount: string): Money {
  return { amount, currency: "USD" };
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

  test("of many failed jobs the five that ended last are named, the newest first", () => {
    const jobs = Array.from({ length: 50 }, (_, index) => failed(index + 1, `2026-01-01T2${index % 3}:00:${10 + index}Z`));

    const named = found(jobs).map((need) => (need.kind === "failed" ? need.job.job_id : null));

    expect(named).toEqual(["48", "45", "42", "39", "36"]);
  });

  test("quotas that are nearly used do, and one of nothing is used up", () => {
    const shares = [
      ["79.999999", "100"],
      ["80.000000", "100"],
      ["0.000000", "0.000000"],
    ].map(([used = "", limit = ""]) => ({ scope: "user", name: limit, used: money(used), limit: money(limit), left: money("0") }) as QuotaView);

    const told = needs({ ...NOTHING, quotas: shares });

    expect(told.map((need) => (need.kind === "quota" ? need.share : null))).toEqual([0.8, 1]);
  });
});

describe("budgets that have reached a threshold", () => {
  const at = "2026-01-01T01:00:00Z";
  const budget = (scope: BudgetView["scope"], name: string, crossed: string[], month = "2026-01") =>
    ({
      scope,
      name,
      month,
      limit: money("100"),
      actual: money("81"),
      forecast: money("120"),
      thresholds: [
        ["actual", 50],
        ["actual", 80],
        ["forecast", 100],
      ].map(([measure, percent]) => ({ measure, percent, crossed_at: crossed.includes(`${measure} ${percent}`) ? at : null })),
    }) as BudgetView;
  const told = (admin: boolean, ...budgets: BudgetView[]) =>
    needs({ ...NOTHING, admin, budgets }).map((need) =>
      need.kind === "budget" ? `${need.budget.scope} ${need.budget.name}: ${need.threshold.measure} ${need.threshold.percent}` : need.kind,
    );

  test("are told by the highest one, and what was used before the forecast", () => {
    expect(told(false, budget("user", "ada", ["actual 50", "actual 80", "forecast 100"]))).toEqual(["user ada: actual 80"]);
    expect(told(false, budget("user", "ada", ["forecast 100"]))).toEqual(["user ada: forecast 100"]);
    expect(told(false, budget("user", "ada", []))).toEqual([]);
  });

  test("are told no more when the limit was raised", () => {
    expect(told(false, { ...budget("user", "ada", ["actual 80", "forecast 100"]), limit: money("1000") })).toEqual([]);
    expect(told(false, { ...budget("user", "ada", ["actual 80"]), actual: null })).toEqual(["user ada: actual 80"]);
  });

  test("of the month before are told no more", () => {
    expect(told(false, budget("user", "ada", ["actual 80"], "2025-12"))).toEqual([]);
  });

  test("are one's own, and for an admin those of the tenant, and then some of other people", () => {
    const budgets = [
      budget("user", "ada", ["actual 80"]),
      budget("tenant", "acme", ["actual 80"]),
      budget("account", "physics", ["actual 80"]),
    ];

    expect(told(false, ...budgets.slice(0, 2))).toEqual(["user ada: actual 80"]);
    const others = Array.from({ length: 9 }, (_, number) => budget("user", `u${number}`, ["actual 80"]));
    expect(told(true, ...others, ...budgets)).toEqual([
      "user ada: actual 80",
      "tenant acme: actual 80",
      "account physics: actual 80",
      ...["u0", "u1", "u2", "u3", "u4"].map((name) => `user ${name}: actual 80`),
    ]);
  });
});

describe("the jobs of now", () => {
  test("are counted by what they do, and those that ended within a day", () => {
    const job = (state: string, ended: string | null = null) => ({ ...failed(1, ended), state });
    const list = [job("RUNNING"), job("PENDING"), job("COMPLETED", "2026-01-01T12:00:00Z"), job("FAILED", "2025-12-30T12:00:00Z")];

    expect(counted(list, NOW)).toEqual({ running: 1, waiting: 1, ended: 1 });
  });

  test("are a lower bound while some of them are not read", () => {
    expect(figure(3, true)).toBe("3");
    expect(figure(3, false)).toBe("at least 3");
    expect(figure(0, false)).toBe(null);
  });
});
