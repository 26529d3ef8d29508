/** The changes of a policy that a person tries, as the simulation takes them. */

import type { ClusterDetail, PolicyChanges } from "../../api/schema";

export interface Tried {
  workers: number | null;
  /** Of a limit; null is as it is. */
  usd: number | null;
  unlimited: boolean;
  name: "packing" | "family" | null;
  idle: number | null;
  /** Shapes that no worker may have. */
  without: readonly string[];
}

export const UNCHANGED: Tried = { workers: null, usd: null, unlimited: false, name: null, idle: null, without: [] };

/** The fields that are otherwise; null where nothing is. Limits by shape are sent as a whole, so those there are stay. */
export function changesOf(tried: Tried, shapes: ClusterDetail["shapes"]): PolicyChanges | null {
  const changes: PolicyChanges = {};
  if (tried.workers !== null) changes.max_workers = tried.workers;
  if (tried.unlimited) changes.usd_per_hour = null;
  else if (tried.usd !== null) changes.usd_per_hour = tried.usd;
  if (tried.name !== null) changes.name = tried.name;
  if (tried.idle !== null) changes.idle_seconds = tried.idle;
  if (tried.without.length > 0) {
    const limits = shapes.flatMap(({ name, most }) => (most === null ? [] : [[name, most] as const]));
    changes.most = { ...Object.fromEntries(limits), ...Object.fromEntries(tried.without.map((shape) => [shape, 0])) };
  }
  return Object.keys(changes).length === 0 ? null : changes;
}
