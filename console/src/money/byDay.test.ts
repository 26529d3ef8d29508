import { describe, expect, test } from "vitest";
import type { CostEntry } from "../api/schema";
import { sum } from "../ui/decimal";
import { stacked } from "../ui/charts/stack";
import { dayCosts } from "./byDay";
import { days } from "./period";

const PERIOD = days({ from: "2026-11-28", until: "2026-12-03" });
const NAMES = { of: ({ user, purpose }: CostEntry) => user ?? purpose, others: (count: number) => `${count} others` };

function entries(seed: number): CostEntry[] {
  let state = seed;
  const next = (below: number) => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
  return Array.from({ length: next(60) }, () => {
    const job = next(4) > 0;
    const amount = `${next(100)}.${String(next(1_000_000)).padStart(6, "0")}`;
    return {
      purpose: job ? "job" : "idle",
      day: PERIOD[next(PERIOD.length)] ?? null,
      user: job ? `user${next(12)}` : null,
      cost: next(10) === 0 ? null : { amount, currency: "USD" },
    } as CostEntry;
  });
}

describe("costs by day", () => {
  test("add up to the exact sum of the rows, whatever is put together", () => {
    for (let seed = 1; seed <= 100; seed += 1) {
      const given = entries(seed);
      const known = given.flatMap(({ cost }) => (cost === null ? [] : [cost.amount]));
      const { series, total } = dayCosts(given, PERIOD, NAMES, 4);

      expect(total).toBe(sum(known));
      expect(series.length).toBeLessThanOrEqual(4);
      const heights = stacked(series, PERIOD.length).at(-1) ?? [];
      expect(heights.reduce<number>((all, height) => all + (height ?? 0), 0)).toBeCloseTo(Number(total), 4);
    }
  });

  test("of one name on a day are one bar", () => {
    const entry = { purpose: "job", day: "2026-11-28", user: "ada", cost: { amount: "0.1", currency: "USD" } } as CostEntry;

    expect(dayCosts([entry, entry, entry], PERIOD, NAMES, 4).series).toEqual([
      { id: "job ada", label: "ada", purpose: "job", shape: null, values: [0.3, 0, 0, 0, 0, 0] },
    ]);
  });
});
