/** How the time of workers divides in each hour, as shares. */

import type { FleetHour, FleetHours } from "../../api/schema";
import { fillOfUse } from "../../ui/charts/fills";
import type { ChartSeries } from "../../ui/charts/stack";

export const ACTIVITIES = ["busy", "booting", "idle"] as const;
export type Activity = (typeof ACTIVITIES)[number];

/** The share of each in the time of all workers, from 0 to 1; null where there were none. */
export function sharesOfTime(hours: readonly FleetHour[]): Record<Activity, number> | null {
  const seconds = { busy: 0, booting: 0, idle: 0 };
  for (const hour of hours) for (const each of ACTIVITIES) seconds[each] += hour[`${each}_seconds`];
  const all = seconds.busy + seconds.booting + seconds.idle;
  return all <= 0 ? null : { busy: seconds.busy / all, booting: seconds.booting / all, idle: seconds.idle / all };
}

/** Where the hours begin if earlier ones are missing, because there were too many events; null where none is missing. */
export function cutAt({ complete, hours }: FleetHours): Date | null {
  const first = hours[0];
  return complete || first === undefined ? null : new Date(first.begin);
}

/** The shares of each hour from its beginning on; the last ones until the end. Empty where no hour had a worker. */
export function hourlyShares({ hours, as_of }: FleetHours, label: (activity: Activity) => string): { times: number[]; series: ChartSeries[] } {
  const shares = hours.map((hour) => sharesOfTime([hour]));
  const last = shares.at(-1);
  if (last === undefined || shares.every((share) => share === null)) return { times: [], series: [] };
  const values = (activity: Activity) => [...shares, last].map((share) => share?.[activity] ?? null);
  return {
    times: [...hours.map(({ begin }) => Date.parse(begin)), Date.parse(as_of)],
    series: ACTIVITIES.map((id) => ({ id, label: label(id), values: values(id), fill: fillOfUse(id) })),
  };
}
