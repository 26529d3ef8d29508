import { describe, expect, it } from "vitest";
import type { Job } from "../../api/schema";
import type { LiveEvent } from "../../live/event";
import { followed, isComplete, listOf, MOST_JOBS, patched, withHistory, withPage, withRecord } from "./list";

function job(id: string, more: Partial<Job> = {}): Job {
  return {
    job_id: id, name: `job ${id}`, user: "ada", uid: 1, state: "PENDING", partition: "main", qos: "normal",
    submitted_at: "2026-01-01T00:00:00Z", ...more,
  };
}

function event(position: number, id: string, state: string, more: object = {}): LiveEvent {
  const kind = state === "PENDING" ? "job.submitted" : "job.running";
  const data = { kind, ...job(id), state, ...more };
  return { id: String(position), subject: id, time: "", position, data };
}

const states = (list: ReturnType<typeof listOf>) => Object.fromEntries(list.rows.map((each) => [each.job_id, each.state]));

describe("the list of jobs", () => {
  it("applies an event once, and none that its page has already", () => {
    const list = listOf({ jobs: [job("1"), job("2", { state: "RUNNING" })], total: 2 }, 10);
    const once = patched(list, [event(9, "2", "PENDING"), event(11, "1", "RUNNING"), event(12, "3", "PENDING")]);
    expect(states(once)).toEqual({ 1: "RUNNING", 2: "RUNNING", 3: "PENDING" });
    expect(once.total).toBe(3);
    const twice = patched(once, [event(11, "1", "PENDING"), event(12, "3", "RUNNING")]);
    expect(states(twice)).toEqual(states(once));
    expect(twice.total).toBe(3);
    expect(states(list)).toEqual({ 1: "PENDING", 2: "RUNNING" });
    expect(list.index.has("3")).toBe(false);
  });

  it("is the same whatever the order of its pages and events", () => {
    // Job 3 runs at 12 and is done at 14. The second page was read as of 13, between the two.
    const first = { jobs: [job("1"), job("2")], total: 3, cursor: "next" };
    const second = { jobs: [job("3", { state: "RUNNING", account: "chem" })], total: 3 };
    const runs = event(12, "3", "RUNNING");
    const ends = event(14, "3", "COMPLETED");
    const orders = [
      (list: ReturnType<typeof listOf>) => withPage(patched(list, [runs, ends]), second, 13),
      (list: ReturnType<typeof listOf>) => patched(withPage(patched(list, [runs]), second, 13), [ends]),
      (list: ReturnType<typeof listOf>) => patched(withPage(list, second, 13), [runs, ends]),
    ];
    for (const order of orders) {
      const list = order(listOf(first, 10));
      expect(states(list)).toEqual({ 1: "PENDING", 2: "PENDING", 3: "COMPLETED" });
      expect(list.rows[list.index.get("3") ?? -1]?.account).toBe("chem");
      expect(list.total).toBe(3);
    }
  });

  it("takes an event between the positions of its first and its last page", () => {
    const list = withPage(listOf({ jobs: [job("2")], total: 2, cursor: "next" }, 10), { jobs: [job("1")], total: 2 }, 20);
    expect(states(patched(list, [event(15, "3", "PENDING")]))).toEqual({ 1: "PENDING", 2: "PENDING", 3: "PENDING" });
  });

  it("moves a task from the waiting ones of its array to a row of its own", () => {
    let list = listOf({ jobs: [job("42", { array_tasks: "0-1" })], total: 1 }, 1);
    list = patched(list, [event(2, "42_0", "RUNNING")]);
    expect(list.rows[0]?.array_tasks).toBe("1");
    list = patched(list, [event(3, "42_1", "RUNNING")]);
    expect(list.rows.map(({ job_id }) => job_id)).toEqual(["42_0", "42_1"]);
    expect([...list.index]).toEqual([["42_0", 0], ["42_1", 1]]);
  });

  it("has a task once, when the page of its array is older than its event", () => {
    const list = patched(listOf({ jobs: [], total: 1, cursor: "next" }, 1), [event(5, "42_0", "RUNNING")]);
    const whole = withPage(list, { jobs: [job("42", { array_tasks: "0-3" })], total: 1 }, 3);
    expect(whole.rows.map(({ job_id, array_tasks }) => [job_id, array_tasks])).toEqual([["42_0", undefined], ["42", "1-3"]]);
  });

  it("keeps what newer events told when a record arrives late", () => {
    const list = patched(listOf({ jobs: [], total: 0 }, 1), [event(2, "7", "PENDING"), event(3, "7", "RUNNING")]);
    const whole = withRecord(list, job("7", { account: "chem" }), 2);
    expect(whole.rows[0]).toMatchObject({ state: "RUNNING", account: "chem", qos: "normal" });
  });

  it("has no array beside its tasks when it was read after they have started", () => {
    const list = patched(listOf({ jobs: [], total: 0 }, 1), [event(2, "42", "PENDING"), event(3, "42_0", "RUNNING"), event(4, "42_1", "RUNNING")]);
    expect(withRecord(list, job("42", { state: "RUNNING" }), 2).rows.map(({ job_id }) => job_id)).toEqual(["42_0", "42_1"]);
    const half = withRecord(list, job("42", { state: "RUNNING", array_tasks: "1-3" }), 2);
    expect(half.rows[half.index.get("42") ?? -1]).toMatchObject({ state: "PENDING", array_tasks: "2-3" });
  });

  it("keeps a bound", () => {
    const jobs = Array.from({ length: MOST_JOBS + 5 }, (_, id) => job(String(id)));
    const list = listOf({ jobs, total: jobs.length, cursor: "more" }, 1);
    expect([list.rows.length, list.total, list.cursor]).toEqual([MOST_JOBS, MOST_JOBS + 5, null]);
  });

  it("shows a new job when it is full, in place of the oldest that has ended", () => {
    const jobs = Array.from({ length: MOST_JOBS }, (_, id) => job(String(id + 1), { submitted_at: `2026-01-01T00:00:0${id % 9}Z` }));
    jobs[10] = job("11", { state: "COMPLETED", submitted_at: "2026-01-02T00:00:00Z" });
    jobs[20] = job("21", { state: "COMPLETED", submitted_at: "2026-01-01T12:00:00Z" });
    const full = listOf({ jobs, total: jobs.length }, 10);
    const once = patched(full, [event(11, "99998", "PENDING", { submitted_at: "2026-02-01T00:00:00Z" })]);
    expect(["99998", "21", "11", "1"].map((id) => once.index.has(id))).toEqual([true, false, true, true]);
    expect([once.rows.length, once.positions.length, once.total]).toEqual([MOST_JOBS, MOST_JOBS, MOST_JOBS + 1]);
    expect(once.rows[once.index.get("99998") ?? -1]?.job_id).toBe("99998");
    const more = [2, 3].map((second) => event(10 + second, `9999${second}`, "PENDING", { submitted_at: `2026-02-01T00:00:0${second}Z` }));
    const none = patched(once, more);
    // Where none has ended the oldest goes.
    expect(["99992", "99993", "11", "1"].map((id) => none.index.has(id))).toEqual([true, true, false, false]);
    expect([none.rows.length, none.total]).toEqual([MOST_JOBS, MOST_JOBS + 3]);
    expect(full.index.has("99998")).toBe(false);
  });

  it("loses no event of the time of its reading when a newer one is told first", () => {
    const early = patched(listOf({ jobs: [job("1")], total: 1 }, 100), [event(103, "8", "PENDING")]);
    expect(early.position).toBe(100);
    const list = followed(early, [event(101, "7", "PENDING"), event(102, "1", "RUNNING"), event(103, "8", "PENDING")]);
    expect(states(list)).toEqual({ 1: "RUNNING", 7: "PENDING", 8: "PENDING" });
    expect([list.position, list.total]).toEqual([103, 3]);
  });

  it("takes no event again of a job that it dropped, once it follows", () => {
    const told = [event(2, "42_0", "RUNNING"), event(3, "42_1", "RUNNING")];
    const list = patched(followed(listOf({ jobs: [job("42", { array_tasks: "0-1" })], total: 1 }, 1), []), told);
    expect(list.index.has("42")).toBe(false);
    expect(patched(list, [event(2, "42", "PENDING"), ...told])).toBe(list);
  });

  it("keeps jobs that ended when it is read again", () => {
    const before = listOf({ jobs: [job("1", { state: "COMPLETED" }), job("2", { state: "RUNNING" }), job("3", { state: "FAILED" })], total: 3 }, 10);
    const again = listOf({ jobs: [job("3", { state: "PENDING" }), job("4")], total: 2 }, 20, before);
    expect(states(again)).toEqual({ 1: "COMPLETED", 3: "PENDING", 4: "PENDING" });
    expect([again.position, again.followed, again.history]).toEqual([20, false, null]);
  });

  it("changes a thousand of twenty thousand rows at once", () => {
    const jobs = Array.from({ length: MOST_JOBS }, (_, id) => job(String(id)));
    const list = listOf({ jobs, total: jobs.length }, 1);
    const events = Array.from({ length: 1_000 }, (_, id) => event(id + 2, String(id * 7), "RUNNING"));
    const after = patched(list, events);
    expect(after.rows.filter(({ state }) => state === "RUNNING")).toHaveLength(1_000);
    expect(after.index).toBe(list.index);
  });
});

describe("the jobs that Slurm has forgotten", () => {
  const since = "2026-01-01T00:00:00.000Z";

  it("are added from accounting, and those that are there stay as events told them", () => {
    const live = patched(listOf({ jobs: [job("7")], total: 1 }, 5), [event(6, "7", "RUNNING")]);

    const whole = withHistory(live, since, { jobs: [job("7"), job("3")], total: 2 }, 5);

    expect(whole.rows.map(({ job_id, state }) => [job_id, state])).toEqual([
      ["7", "RUNNING"],
      ["3", "PENDING"],
    ]);
    expect(isComplete(whole, since)).toBe(true);
  });

  it("are not all there before their last page, or for an earlier day", () => {
    const first = withHistory(listOf({ jobs: [], total: 0 }, 5), since, { jobs: [job("3")], total: 2, cursor: "next" }, 5);

    expect(isComplete(first, since)).toBe(false);
    expect(isComplete(withHistory(first, since, { jobs: [job("2")], total: 2 }, 5), since)).toBe(true);
    expect(isComplete(withHistory(first, since, { jobs: [job("2")], total: 2 }, 5), "2025-12-01T00:00:00.000Z")).toBe(false);
  });
});
