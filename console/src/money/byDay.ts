/** Costs by day as series of a chart. Sums are exact: only the heights of bars are floating point. */

import type { CostEntry } from "../api/schema";
import { decimal, micro } from "../ui/decimal";
import { largest, type ChartValues } from "../ui/charts/stack";

export type By = "user" | "account" | "template" | "job" | "day" | "shape" | "worker";

/** What the rows of a series are for; null of all others together. */
interface Meaning {
  purpose: CostEntry["purpose"] | null;
  shape: string | null;
}

export interface DaySeries extends ChartValues, Meaning {}

interface Sums extends Meaning {
  id: string;
  label: string;
  byDay: Map<string, bigint>;
}

export interface DayCosts {
  series: DaySeries[];
  /** The sum of all bars, as a decimal. */
  total: string;
}

interface Names {
  /** What rows without a name are called. */
  of: (entry: CostEntry) => string;
  others: (count: number) => string;
}

/** The costs of each day, by what `Names` call the rows, the `most` largest ones and all others together. */
export function dayCosts(entries: readonly CostEntry[], days: readonly string[], names: Names, most: number): DayCosts {
  const found = new Map<string, Sums>();
  let total = 0n;
  for (const entry of entries) {
    if (entry.day === null || entry.cost === null) continue;
    const label = names.of(entry);
    const id = `${entry.purpose} ${label}`;
    const sums = found.get(id) ?? { id, label, purpose: entry.purpose, shape: entry.shape ?? null, byDay: new Map<string, bigint>() };
    const cost = micro(entry.cost.amount);
    total += cost;
    sums.byDay.set(entry.day, (sums.byDay.get(entry.day) ?? 0n) + cost);
    found.set(id, sums);
  }
  const together = (rest: readonly Sums[]): Sums => ({ id: "others", label: names.others(rest.length), purpose: null, shape: null, byDay: merged(rest) });
  // Jobs below, and what no job pays above them.
  const ordered = [...found.values()].toSorted((one, other) => Number(one.purpose !== "job") - Number(other.purpose !== "job"));
  const kept = largest(ordered, most, sizeOf, together);
  const series = kept.map(({ byDay, ...each }) => ({ ...each, values: days.map((day) => Number(decimal(byDay.get(day) ?? 0n))) }));
  return { series, total: decimal(total) };
}

function merged(all: readonly Sums[]): Map<string, bigint> {
  const sums = new Map<string, bigint>();
  for (const { byDay } of all) for (const [day, cost] of byDay) sums.set(day, (sums.get(day) ?? 0n) + cost);
  return sums;
}

function sizeOf({ byDay }: Sums): number {
  let size = 0n;
  for (const cost of byDay.values()) size += cost;
  return Number(size);
}
