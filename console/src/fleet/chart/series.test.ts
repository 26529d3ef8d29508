import { describe, expect, test } from "vitest";
import type { Fleet } from "../../api/schema";
import { stacked } from "../../ui/charts/stack";
import type { Decision } from "../decisions";
import { fleetSeries, from, withDecisions, withUpdate } from "./series";

const START = Date.parse("2026-11-27T05:00:00Z");

/** A fleet whose changes lead from its beginning to its present. */
function fleet(seed: number): Fleet {
  let state = seed;
  const next = (below: number) => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
  const shapes = ["a", "b", "c"].slice(0, 1 + next(3));
  const before = shapes.map((shape) => ({ shape, desired: next(5), live: next(5) }));
  const now = new Map(before.map((count) => [count.shape, count]));
  let at = START;
  const changes = Array.from({ length: next(20) }, () => {
    at += next(3) * 1_000;
    const count = { shape: shapes[next(shapes.length)] ?? "a", desired: next(9), live: next(9) };
    now.set(count.shape, count);
    return { ...count, at: new Date(at).toISOString() };
  });
  const moments = { after: new Date(START).toISOString(), as_of: new Date(at + 1_000).toISOString() };
  return { ...moments, complete: true, before, changes, now: [...now.values()] };
}

describe("the series of a fleet", () => {
  test("end with the fleet's present, and their times ascend", () => {
    for (let seed = 1; seed <= 200; seed += 1) {
      const given = fleet(seed);
      const { times, live, desired } = fleetSeries(given);
      const ends = new Map(live.map(({ id, values }) => [id, values.at(-1)]));
      for (const count of given.now) expect(ends.get(count.shape) ?? 0).toBe(count.live);
      expect(desired.at(-1)).toBe(given.now.reduce((sum, count) => sum + (count.desired ?? 0), 0));
      expect(times).toEqual(times.toSorted((one, other) => one - other));
      for (const { values } of live) expect(values).toHaveLength(times.length);
    }
  });

  test("add up to all live workers", () => {
    for (let seed = 1; seed <= 50; seed += 1) {
      const given = fleet(seed);
      const { times, live } = fleetSeries(given);
      const total = given.now.reduce((sum, count) => sum + (count.live ?? 0), 0);
      expect(stacked(live, times.length).at(-1)?.at(-1) ?? 0).toBe(total);
    }
  });

  test("say where nobody knows how many there are", () => {
    const given = { ...fleet(1), before: [{ shape: "a", desired: 1, live: null }], changes: [], now: [{ shape: "a", desired: 1, live: 1 }] };

    expect(fleetSeries(given).live[0]?.values).toEqual([null, 1]);
  });
});

describe("what is told", () => {
  const told = { at: "2026-11-27T09:00:00.000Z", counts: [{ shape: "a", live: 7 }, { shape: "new", desired: 2 }] };

  test("becomes the present", () => {
    const changed = withUpdate(fleet(3), told);

    expect(changed.now.find(({ shape }) => shape === "a")?.live).toBe(7);
    expect(changed.now.find(({ shape }) => shape === "new")).toEqual({ shape: "new", desired: 2, live: 0 });
    expect(changed.as_of).toBe(told.at);
  });

  test("twice is told once", () => {
    const once = withUpdate(fleet(3), told);

    expect(withUpdate(once, told)).toBe(once);
  });
});

describe("decisions that are told after a fleet was read", () => {
  const decision = (second: number, shape: string, before: number, after: number): Decision => ({
    id: `${second}`,
    at: new Date(START + second * 1_000).toISOString(),
    generation: second,
    changes: [{ shape, replicas_before: before, replicas_after: after, victims: [], reason: "", job_ids: [], alternatives: [] }],
  });
  const read: Fleet = {
    after: new Date(START).toISOString(),
    as_of: new Date(START + 9_000).toISOString(),
    complete: true,
    before: [{ shape: "a", desired: 0, live: 0 }],
    changes: [3, 5].map((desired, row) => ({ shape: "a", desired, live: 0, at: new Date(START + (row + 1) * 1_000).toISOString() })),
    now: [{ shape: "a", desired: 5, live: 0 }],
  };

  test("do nothing where the fleet has them, although they are told again from its position on", () => {
    expect(withDecisions(read, [decision(1, "a", 0, 3), decision(2, "a", 3, 5)])).toBe(read);
  });

  test("are added where it does not", () => {
    const changed = withDecisions(read, [decision(2, "a", 3, 5), decision(10, "a", 5, 4), decision(11, "a", 4, 8)]);
    expect(changed.changes.map(({ desired }) => desired)).toEqual([3, 5, 4, 8]);
    expect(changed.now).toEqual([{ shape: "a", desired: 8, live: 0 }]);
  });
});

describe("a fleet from a moment on", () => {
  test("begins with what was so then, and ends as before", () => {
    for (let seed = 1; seed <= 100; seed += 1) {
      const given = fleet(seed);
      const moment = START + (seed % 20) * 1_000;
      const later = from(given, moment);
      expect(later.changes).toEqual(given.changes.filter(({ at }) => Date.parse(at) >= moment));
      const last = new Map(given.before.map((count) => [count.shape, count.live]));
      for (const { at, shape, live } of given.changes) if (Date.parse(at) < moment) last.set(shape, live);
      for (const { shape, live } of later.before) expect(live).toBe(last.get(shape));
      expect(fleetSeries(later).desired.at(-1)).toBe(fleetSeries(given).desired.at(-1));
      expect(fleetSeries(later).times[0]).toBe(moment);
    }
  });

  test("that is before its beginning is the same one", () => {
    const given = fleet(3);

    expect(from(given, START - 1)).toBe(given);
  });
});
