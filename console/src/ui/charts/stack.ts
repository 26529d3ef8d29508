/** Series on top of each other, as charts draw them. */

import type { Fill } from "./fills";

export interface ChartValues {
  id: string;
  label: string;
  /** One for each moment of the chart; null where it is not known. */
  values: readonly (number | null)[];
}

export interface ChartSeries extends ChartValues {
  fill: Fill;
}

/** The heights of each series from the bottom: its own value and those below it. Null where nothing is known so far. */
export function stacked(series: readonly ChartValues[], moments: number): (number | null)[][] {
  let below: (number | null)[] = Array.from({ length: moments }, () => null);
  return series.map(({ values }) => {
    below = below.map((height, index) => {
      const value = values[index] ?? null;
      return value === null ? height : (height ?? 0) + value;
    });
    return below;
  });
}

/** The `most` largest series in their order, and one of all others. Values are added by `add`. */
export function largest<Series>(
  series: readonly Series[],
  most: number,
  size: (series: Series) => number,
  others: (rest: readonly Series[]) => Series,
): Series[] {
  if (series.length <= most) return [...series];
  const kept = new Set([...series].toSorted((one, other) => size(other) - size(one)).slice(0, most - 1));
  return [...series.filter((each) => kept.has(each)), others(series.filter((each) => !kept.has(each)))];
}
