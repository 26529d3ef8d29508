import { describe, expect, test } from "vitest";
import { share, written } from "./amounts";
import { after, days, preset, presetOf } from "./period";

const NOW = Date.parse("2026-03-01T00:30:00Z");

describe("periods", () => {
  test("are whole days in UTC", () => {
    expect(preset("month", NOW)).toEqual({ from: "2026-03-01", until: "2026-03-01" });
    expect(preset("last_month", NOW)).toEqual({ from: "2026-02-01", until: "2026-02-28" });
    expect(days(preset("days7", NOW))).toHaveLength(7);
    expect(after("2026-02-28")).toBe("2026-03-01");
  });

  test("are found again by their name", () => {
    for (const name of ["month", "last_month", "days30", "days7"] as const) expect(presetOf(preset(name, NOW), NOW)).toBe(name);
    expect(presetOf({ from: "2026-01-05", until: "2026-01-09" }, NOW)).toBeNull();
  });

  test("that end before they begin have no days, and long ones an end", () => {
    expect(days({ from: "2026-03-02", until: "2026-03-01" })).toEqual([]);
    expect(days({ from: "1990-01-01", until: "2026-03-01" })).toHaveLength(400);
  });
});

describe("amounts in an input", () => {
  test("are taken as they are written, and anything else is none", () => {
    expect(["250", " 99.50 ", "1,5", "0.000001"].map(written)).toEqual(["250", "99.50", "1.5", "0.000001"]);
    expect(["", "-1", "1e3", "1.0000001", "1 000", "NaN"].map(written)).toEqual([null, null, null, null, null, null]);
  });
});

describe("the used part", () => {
  const usd = (amount: string) => ({ amount, currency: "USD" as const });

  test("is exact to a hundredth of a percent, and a limit of zero is used up", () => {
    expect(share(usd("37.500000"), usd("50.000000"))).toBe(0.75);
    expect(share(usd("0.000000"), usd("0.000000"))).toBe(1);
    expect(share(usd("75.000000"), usd("50.000000"))).toBe(1.5);
  });
});
