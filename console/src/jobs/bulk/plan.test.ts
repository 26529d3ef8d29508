import { describe, expect, it } from "vitest";
import type { Job } from "../../api/schema";
import { planned, runEach, tally } from "./plan";

function job(id: string, state: string, more: Partial<Job> = {}): Job {
  return { job_id: id, name: id, user: "ada", uid: 1, state, partition: "main", submitted_at: "2026-01-01T00:00:00Z", ...more };
}

describe("an act on many jobs", () => {
  it("says what happens to each, and leaves alone what it cannot change", () => {
    const jobs = [job("1", "RUNNING"), job("2", "COMPLETED"), job("42", "PENDING", { array_tasks: "0-9%2" }), job("3", "PENDING", { reason: "JobHeldUser" })];
    const told = (act: "cancel" | "hold" | "release") => planned(act, jobs).map(({ target, outcome }) => `${target} ${outcome}`);
    expect(told("cancel")).toEqual(["1 will", "2 skipped", "42_[0-9] will", "3 will"]);
    expect(told("hold")).toEqual(["1 skipped", "2 skipped", "42 will", "3 skipped"]);
    expect(told("release")).toEqual(["1 skipped", "2 skipped", "42 skipped", "3 will"]);
  });

  it("tries each once, few at once, and a failure stops no other", async () => {
    let flying = 0;
    let most = 0;
    const tried: string[] = [];
    const entries = planned("cancel", Array.from({ length: 20 }, (_, id) => job(String(id), "RUNNING")));
    const results = await runEach({
      entries,
      signal: new AbortController().signal,
      progress: () => undefined,
      async act(target) {
        tried.push(target);
        most = Math.max(most, ++flying);
        await Promise.resolve();
        flying -= 1;
        if (target === "7") throw new Error("no");
      },
    });
    expect(tried).toHaveLength(20);
    expect(most).toBeLessThanOrEqual(4);
    expect(tally(results)).toMatchObject({ done: 19, failed: 1 });
    expect(results[7]).toMatchObject({ outcome: "failed", detail: "no" });
  });

  it("says of those after an abort that they were not tried", async () => {
    const ended = new AbortController();
    const entries = planned("cancel", Array.from({ length: 5 }, (_, id) => job(String(id), "RUNNING")));
    const act = () => {
      ended.abort();
      return Promise.resolve();
    };
    const results = await runEach({ entries, signal: ended.signal, progress: () => undefined, act, atOnce: 1 });
    expect(tally(results)).toMatchObject({ done: 1, not_tried: 4 });
  });
});
