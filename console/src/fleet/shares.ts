/** How the bill of a time divides between jobs, workers that boot, and workers that are idle. Sums are exact. */

import type { CostEntry } from "../api/schema";
import { micro } from "../ui/decimal";

export type Purpose = CostEntry["purpose"];

/** The share of each purpose in the sum of all known amounts, from 0 to 1; null where nothing was paid. */
export function sharesOf(entries: readonly CostEntry[]): Record<Purpose, number> | null {
  const sums: Record<Purpose, bigint> = { job: 0n, boot: 0n, idle: 0n, unattributed: 0n };
  for (const { purpose, cost } of entries) if (cost !== null) sums[purpose] += micro(cost.amount);
  const total = sums.job + sums.boot + sums.idle + sums.unattributed;
  if (total <= 0n) return null;
  // Ten thousandths are exact enough to be shown, and stay whole until here.
  const share = (part: bigint) => Number((part * 10_000n) / total) / 10_000;
  return { job: share(sums.job), boot: share(sums.boot), idle: share(sums.idle), unattributed: share(sums.unattributed) };
}

/** Shares in whole percent that add up to 100: those that lose most by rounding down are rounded up (largest remainder). */
export function wholePercents(shares: Record<Purpose, number>): Record<Purpose, number> {
  const parts = (Object.entries(shares) as [Purpose, number][]).map(([purpose, part]) => ({ purpose, percent: Math.floor(part * 100), left: (part * 100) % 1 }));
  const missing = 100 - parts.reduce((sum, { percent }) => sum + percent, 0);
  const up = new Set(parts.toSorted((one, other) => other.left - one.left).slice(0, missing));
  return Object.fromEntries(parts.map((part) => [part.purpose, part.percent + (up.has(part) ? 1 : 0)])) as Record<Purpose, number>;
}
