import { describe, expect, it } from "vitest";
import type { Job } from "../api/schema";
import { apiFilter, filtered } from "./filters/filters";
import { arranged, folded } from "./rows";

let seed = 7;
function random(most: number): number {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return seed % most;
}

const STATES = ["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"];

function job(id: string, more: Partial<Job> = {}): Job {
  return {
    job_id: id, name: `job-${id}`, user: ["ada", "grace"][random(2)] ?? "", uid: 1, state: STATES[random(5)] ?? "",
    partition: "main", qos: "normal", submitted_at: new Date(1_700_000_000_000 + random(1e9)).toISOString(), ...more,
  };
}

describe("rows", () => {
  it("have each job once, and arrays count every task once", () => {
    const jobs = Array.from({ length: 300 }, (_, number) =>
      number % 3 === 0 ? job(`${100 + (number % 7)}_${number}`) : job(String(1_000 + number)),
    );
    jobs.push(job("100", { state: "PENDING", array_tasks: "500-599%4" }));
    const rows = folded(jobs, new Set());
    expect(rows.filter(({ kind }) => kind === "job")).toHaveLength(200);
    const arrays = rows.filter((row) => row.kind === "array");
    expect(arrays.reduce((total, row) => total + row.total, 0)).toBe(200);
    for (const row of arrays) expect(Object.values(row.counts).reduce((sum, each) => sum + each, 0)).toBe(row.total);
  });

  it("have the tasks of an array that ended before they started", () => {
    const jobs = [job("9", { state: "CANCELLED", unstarted_tasks: "0-2,4" }), job("9_3", { state: "CANCELLED" })];
    const [row, one, rest] = arranged(folded(jobs, new Set(["9"])), null);
    expect(row).toMatchObject({ kind: "array", id: "9", total: 5, counts: { cancelled: 5 } });
    expect([one?.id, rest?.id]).toEqual(["9_3", "9_[]"]);
  });

  it("know how many tasks an array has, those that are filtered out too", () => {
    const jobs = [job("9_1", { state: "FAILED" }), job("9_2", { state: "COMPLETED" }), job("9", { state: "PENDING", array_tasks: "3-12" }), job("8")];
    const [row] = folded(jobs.slice(0, 1), new Set(), jobs);
    expect(row).toMatchObject({ kind: "array", id: "9", total: 1, whole: 12 });
    expect(folded(jobs, new Set())[0]).toMatchObject({ total: 12, whole: 12 });
  });

  it("open in place: tasks stand below their array, by number", () => {
    const jobs = [job("42_10"), job("42_2"), job("42", { state: "PENDING", array_tasks: "11-20" }), job("50")];
    const rows = arranged(folded(jobs, new Set(["42"])), { value: ({ job_id }) => Number.parseInt(job_id, 10), descending: false });
    expect(rows.map(({ id }) => id)).toEqual(["42", "42_2", "42_10", "42_[]", "50"]);
  });

  it("keep what has no value last in both directions", () => {
    const jobs = [job("1", { ended_at: null }), job("2", { ended_at: "2026-01-01T00:00:00Z" }), job("3", { ended_at: "2026-01-02T00:00:00Z" })];
    for (const descending of [true, false]) {
      const rows = arranged(folded(jobs, new Set()), { value: (each) => (each.ended_at ? Date.parse(each.ended_at) : null), descending });
      expect(rows.at(-1)?.id).toBe("1");
    }
  });

  it("are filtered and sorted, however many", () => {
    const jobs = Array.from({ length: 10_000 }, (_, number) => job(String(number)));
    const kept = filtered(jobs, { states: ["running", "failed"], find: "job-1", since: "2023-11-01" });
    const rows = arranged(folded(jobs, new Set()), { value: ({ name }) => name.toLowerCase(), descending: false });
    expect(kept.length).toBeGreaterThan(0);
    expect(rows.map(({ job: { name } }) => name)).toEqual(jobs.map(({ name }) => name).sort());
  });
});

describe("filters", () => {
  const jobs = [
    job("1", { name: "Relax", user: "ada", state: "RUNNING", account: "chem" }),
    job("12", { name: "sweep", user: "grace", state: "PENDING" }),
    job("13_4", { name: "sweep", user: "grace", state: "FAILED" }),
  ];
  const ids = (filters: Parameters<typeof filtered>[1]) => filtered(jobs, filters).map(({ job_id }) => job_id);

  it("match all that is set, and any of what is chosen", () => {
    expect(ids({})).toEqual(["1", "12", "13_4"]);
    expect(ids({ states: ["waiting", "failed"] })).toEqual(["12", "13_4"]);
    expect(ids({ find: "relax" })).toEqual(["1"]);
    expect(ids({ find: "1" })).toEqual(["1", "12", "13_4"]);
    expect(ids({ find: "#13" })).toEqual(["13_4"]);
    expect(ids({ accounts: ["chem"], users: ["grace"] })).toEqual([]);
  });

  it("become a filter of the API only where it means the same jobs", () => {
    const ada = new Set(["ada"]);
    expect(apiFilter({ states: ["waiting"] }, ada, "ada")).toEqual({ state: ["PENDING"], user: "ada" });
    expect(apiFilter({ users: ["grace"], partitions: ["main"] }, ada, "ada")).toEqual({ partition: "main", user: "grace" });
    expect(apiFilter({}, new Set(["ada", "grace"]), "ada")).toBeNull();
    expect(apiFilter({ find: "x" }, ada, "ada")).toBeNull();
    expect(apiFilter({ states: ["done"] }, ada, "ada")).toBeNull();
  });
});
