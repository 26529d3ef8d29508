import { describe, expect, it } from "vitest";
import type { CostEntry } from "../api/schema";
import { sharesOf, wholePercents, type Purpose } from "./shares";

function entry(purpose: Purpose, amount: string | null): CostEntry {
  return {
    purpose,
    day: "2026-11-01",
    user: null,
    account: null,
    job_id: null,
    name: null,
    worker: null,
    shape: null,
    cost: amount === null ? null : { amount, currency: "USD" },
    hours: 1,
    stale: false,
    unknown: amount === null,
  };
}

describe("sharesOf", () => {
  it("divides the bill", () => {
    const shares = sharesOf([entry("job", "6.000000"), entry("boot", "1.000000"), entry("idle", "2.000000"), entry("idle", "1.000000")]);
    expect(shares).toEqual({ job: 0.6, boot: 0.1, idle: 0.3, unattributed: 0 });
  });

  it("knows no shares of nothing, and leaves unknown amounts out", () => {
    expect(sharesOf([])).toBeNull();
    expect(sharesOf([entry("job", null), entry("idle", "0.000000")])).toBeNull();
    expect(sharesOf([entry("job", null), entry("idle", "0.000001")])).toEqual({ job: 0, boot: 0, idle: 1, unattributed: 0 });
  });

  it("never makes shares that are more than the whole", () => {
    for (let seed = 1; seed < 200; seed += 1) {
      const purposes = ["job", "boot", "idle", "unattributed"] as const;
      const shares = sharesOf(purposes.map((purpose, index) => entry(purpose, `${(seed * 7919 * (index + 3)) % 97}.${String((seed * 104_729) % 1_000_000).padStart(6, "0")}`)));
      const parts = Object.values(shares ?? {});
      const sum = parts.reduce((before, part) => before + part, 0);
      expect(parts.every((part) => part >= 0 && part <= 1)).toBe(true);
      expect(sum).toBeGreaterThan(1 - 0.0005);
      expect(sum).toBeLessThanOrEqual(1 + 1e-9);
      const percents = wholePercents(shares as NonNullable<typeof shares>);
      expect(Object.values(percents).reduce((before, part) => before + part, 0)).toBe(100);
      for (const purpose of purposes) expect(Math.abs(percents[purpose] - (shares?.[purpose] ?? 0) * 100)).toBeLessThan(1.05);
    }
  });
});
