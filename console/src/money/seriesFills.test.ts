import { expect, test } from "vitest";
import { hourlyShares } from "../fleet/hours/hours";
import { fillOfName, fillOfShape, fillOfUse, OTHERS } from "../ui/charts/fills";
import type { DaySeries } from "./byDay";
import { withFills } from "./seriesFills";

test("a use has the same fill in the charts of time and of costs", () => {
  const hour = { begin: "2026-11-27T01:00:00Z", busy_seconds: 1, booting_seconds: 1, idle_seconds: 1 };
  const time = hourlyShares({ as_of: "2026-11-27T02:00:00Z", complete: true, hours: [hour] }, String).series;
  const costs = (["job", "idle", "boot"] as const).map((purpose) => ({ id: purpose, label: purpose, purpose, shape: null, values: [1] }) satisfies DaySeries);
  const byUse = Object.fromEntries(time.map(({ id, fill }) => [id, fill]));
  const byPurpose = Object.fromEntries(withFills(costs, null, []).map(({ id, fill }) => [id, fill]));

  expect([byPurpose["job"], byPurpose["boot"], byPurpose["idle"]]).toEqual([byUse["busy"], byUse["booting"], byUse["idle"]]);
});

test("users and others have fills of no use of workers", () => {
  const series = (["ada", "grace"] as const).map((id) => ({ id, label: id, purpose: "job", shape: null, values: [1] }) satisfies DaySeries);
  const others: DaySeries = { id: "others", label: "2 others", purpose: null, shape: null, values: [1] };
  const [ada, grace, rest] = withFills([...series, others], "user", []).map(({ fill }) => fill);

  expect([ada, grace, rest]).toEqual([fillOfName(0), fillOfName(1), OTHERS]);
  for (const use of ["booting", "idle", "unattributed"] as const) expect([ada, grace, rest]).not.toContainEqual(fillOfUse(use));
});

test("a shape has the same fill in the charts of workers and of costs", () => {
  const shapes = ["compute-xs", "general-xs"];
  const series = [{ id: "job general-xs", label: "general-xs", purpose: "job", shape: "general-xs", values: [1] }] satisfies DaySeries[];

  expect(withFills(series, "shape", shapes)[0]?.fill).toEqual(fillOfShape("general-xs", shapes));
});
