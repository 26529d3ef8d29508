import { describe, expect, it } from "vitest";
import { summaryText } from "./arrayCounts";
import { summaryOf, summaryOfStates, wholeState } from "./arraySummary";

const task = (job_id: string, state: string, more: { array_tasks?: string; unstarted_tasks?: string; reason?: string } = {}) => ({ job_id, state, ...more });

describe("an array as a whole", () => {
  it("is in all states that its tasks are in", () => {
    const records = [task("7", "PENDING", { array_tasks: "5-8%2" }), task("7_1", "COMPLETED"), task("7_2", "FAILED"), task("7_3", "RUNNING"), task("7_4", "COMPLETING")];
    const summary = summaryOf(records);
    expect(summary).toMatchObject({ waits: true, runs: true, over: false, held: false });
    expect(summaryText(summary)).toBe("4 waiting, 2 running, 1 done, 1 failed");
  });

  it("has a task once that started between two reads", () => {
    expect(summaryOf([task("7", "PENDING", { array_tasks: "2-3" }), task("7_2", "RUNNING"), task("7_3", "RUNNING")])).toMatchObject({
      counts: { running: 2 }, waits: false,
    });
  });

  it("is over when each task has ended, also those that never started", () => {
    const summary = summaryOf([task("7", "CANCELLED", { unstarted_tasks: "2-4" }), task("7_1", "COMPLETED")]);
    expect(summary).toMatchObject({ waits: false, runs: false, over: true });
    expect(summaryText(summary)).toBe("All tasks ended: 1 done, 3 cancelled");
  });

  it("is held where its waiting tasks are, while others run", () => {
    const waiting = task("7", "PENDING", { array_tasks: "2-4", reason: "JobHeldUser" });
    expect(summaryOf([waiting, task("7_1", "RUNNING")])).toMatchObject({ held: true, runs: true, waits: true });
  });

  it("is counted by states where not all records were read", () => {
    const summary = summaryOfStates({ PENDING: 1, RUNNING: 3, TIMEOUT: 2, FAILED: 1 }, [task("7", "PENDING", { array_tasks: "10-19" }), task("7_1", "RUNNING")]);
    expect(summary.counts).toEqual({ waiting: 10, running: 3, failed: 3 });
  });
});

describe("a job", () => {
  it("is in one state", () => {
    expect(wholeState({ state: "PENDING", reason: "JobHeldAdmin" })).toEqual({ waits: true, runs: false, over: false, held: true });
    expect(wholeState({ state: "RUNNING" })).toEqual({ waits: false, runs: true, over: false, held: false });
    expect(wholeState({ state: "FAILED" })).toEqual({ waits: false, runs: false, over: true, held: false });
  });
});
