/** What the series of a chart of costs are filled with: as in the charts of the fleet. */

import type { CostEntry } from "../api/schema";
import { fillOfName, fillOfShape, fillOfUse, OTHERS, type Use } from "../ui/charts/fills";
import type { ChartSeries } from "../ui/charts/stack";
import type { DaySeries } from "./byDay";

const USE_OF: Record<CostEntry["purpose"], Use> = { job: "busy", boot: "booting", idle: "idle", unattributed: "unattributed" };

/** `shapes`: all shapes of the cluster. `by`: what the series are of; null where only what it was for tells them apart. */
export function withFills(series: readonly DaySeries[], by: "user" | "account" | "template" | "shape" | null, shapes: readonly string[]): ChartSeries[] {
  const names = series.filter(({ purpose }) => purpose === "job").map(({ id }) => id);
  const fillOf = ({ id, purpose, shape }: DaySeries) => {
    if (purpose === null) return OTHERS;
    if (by === "shape" && shape !== null) return fillOfShape(shape, shapes, USE_OF[purpose]);
    return purpose === "job" && by !== null ? fillOfName(names.indexOf(id)) : fillOfUse(USE_OF[purpose]);
  };
  return series.map((each) => ({ id: each.id, label: each.label, values: each.values, fill: fillOf(each) }));
}
