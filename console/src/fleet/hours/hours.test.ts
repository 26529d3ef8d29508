import { expect, test } from "vitest";
import type { FleetHour } from "../../api/schema";
import { cutAt, hourlyShares, sharesOfTime } from "./hours";

function hour(at: number, busy: number, booting: number, idle: number): FleetHour {
  return { begin: `2026-11-27T0${at}:00:00Z`, busy_seconds: busy, booting_seconds: booting, idle_seconds: idle };
}

test("shares are of the time of all workers, and add up to one", () => {
  const shares = sharesOfTime([hour(1, 3_000, 500, 500), hour(2, 0, 0, 4_000)]);
  expect(shares).toEqual({ busy: 0.375, booting: 0.0625, idle: 0.5625 });
  expect(sharesOfTime([hour(1, 0, 0, 0)])).toBeNull();
});

test("an hour without workers has no shares, and the last hour goes on until the end", () => {
  const given = { as_of: "2026-11-27T03:20:00Z", complete: true, hours: [hour(1, 1, 1, 2), hour(2, 0, 0, 0), hour(3, 3, 0, 1)] };
  const { times, series } = hourlyShares(given, (each) => each);
  expect(times.map((time) => new Date(time).toISOString().slice(11, 16))).toEqual(["01:00", "02:00", "03:00", "03:20"]);
  expect(series.map(({ id, values }) => [id, ...values])).toEqual([
    ["busy", 0.25, null, 0.75, 0.75],
    ["booting", 0.25, null, 0, 0],
    ["idle", 0.5, null, 0.25, 0.25],
  ]);
});

test("where no hour had a worker there is nothing to draw", () => {
  expect(hourlyShares({ as_of: "2026-11-27T03:20:00Z", complete: true, hours: [hour(1, 0, 0, 0)] }, String).series).toEqual([]);
  expect(hourlyShares({ as_of: "2026-11-27T03:20:00Z", complete: false, hours: [] }, String).series).toEqual([]);
});

test("the first hours are missing only where not all events were read", () => {
  const given = { as_of: "2026-11-27T03:20:00Z", complete: false, hours: [hour(2, 1, 0, 0), hour(3, 1, 0, 0)] };
  expect(cutAt(given)?.toISOString()).toBe("2026-11-27T02:00:00.000Z");
  expect(cutAt({ ...given, complete: true })).toBeNull();
  // Without a heartbeat nothing is known, and nothing is cut.
  expect(cutAt({ ...given, hours: [] })).toBeNull();
});
