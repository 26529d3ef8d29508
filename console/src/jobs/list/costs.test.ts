import { describe, expect, it } from "vitest";
import type { Cost, Job } from "../../api/schema";
import { folded } from "../rows";
import { costOfRow, isFurtherOn, NO_COSTS, withNewer, withNext } from "./costs";
import { MOST_JOBS } from "./list";

function job(id: string, day: number, more: Partial<Job> = {}): Job {
  const at = `2026-03-0${day}T00:00:00Z`;
  return { job_id: id, name: id, user: "ada", uid: 1, state: "COMPLETED", partition: "main", qos: "normal", submitted_at: at, started_at: at, ...more };
}

function cost(amount: string | null, asOf = "2026-03-09T00:00:00Z", unknown = false): Cost {
  return { total: amount === null ? null : { amount, currency: "USD" }, as_of: asOf, stale: false, unknown };
}

const rowOf = (...jobs: Job[]) => folded(jobs, new Set())[0]!;

describe("the costs beside the list", () => {
  it("go back in time by pages, and are looked for only where they may be", () => {
    const [newer, older] = [rowOf(job("9", 5)), rowOf(job("1", 1))];
    expect(isFurtherOn(newer, NO_COSTS)).toBe(true);
    const none = withNext(NO_COSTS, { jobs: [], cursor: null, costs: {} }, new Date("2026-03-04T12:00:00Z"));
    expect([isFurtherOn(newer, none), isFurtherOn(older, none)]).toEqual([false, true]);
    const first = withNext(NO_COSTS, { jobs: [job("8", 3)], cursor: "c", costs: { "8": cost("1") } });
    expect(first.next).toEqual({ part: "since", cursor: "c" });
    expect(isFurtherOn(newer, first)).toBe(false);
    expect(isFurtherOn(older, first)).toBe(true);
    const second = withNext(first, { jobs: [], cursor: null, costs: {} });
    expect(second).toMatchObject({ next: { part: "before", cursor: null }, oldest: first.oldest });
    const all = withNext(second, { jobs: [job("1", 1)], costs: { "1": cost("2") } });
    expect(all.next).toBeNull();
    expect(isFurtherOn(rowOf(job("0", 1)), all)).toBe(false);
  });

  it("of an array are the sum once all tasks and their costs are here", () => {
    const tasks = [job("5_1", 1), job("5_2", 1), job("5", 1, { state: "PENDING", array_tasks: "3-9", started_at: null })];
    const some = withNewer(NO_COSTS, { jobs: [], costs: { "5_1": cost("0.25") } });
    expect(costOfRow(rowOf(...tasks), some.known, true)).toBeNull();
    const all = withNewer(some, { jobs: [], costs: { "5_2": cost("0.5", "2026-03-08T00:00:00Z", true) } });
    expect(costOfRow(rowOf(...tasks), all.known, false)).toBeNull();
    expect(costOfRow(rowOf(...tasks), all.known, true)).toEqual({ amount: 0.75, asOf: "2026-03-08T00:00:00Z", part: true, stale: false });
    const unknown = withNewer(all, { jobs: [], costs: { "5_1": cost(null) } });
    expect(costOfRow(rowOf(...tasks), unknown.known, true)?.amount).toBeNull();
  });

  it("of what never ran are zero without reading, and of others nothing until read", () => {
    expect(costOfRow(rowOf(job("1", 1, { started_at: null })), NO_COSTS.known, false)?.amount).toBe(0);
    expect(costOfRow(rowOf(job("1", 1)), NO_COSTS.known, true)).toBeNull();
  });

  it("are bounded: those that were read last stay", () => {
    const many = Object.fromEntries(Array.from({ length: MOST_JOBS }, (_, id) => [String(id + 1), cost("1")]));
    const { known } = withNewer(withNewer(NO_COSTS, { jobs: [], costs: many }), { jobs: [], costs: { "1": cost("2"), x: cost("3") } });
    expect(known.size).toBe(MOST_JOBS);
    expect([known.has("1"), known.has("2"), known.has("x")]).toEqual([true, false, true]);
  });
});
