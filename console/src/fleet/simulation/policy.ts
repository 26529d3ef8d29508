/** The changes of a policy that a person tries, as the simulation takes them. */

import type { ClusterDetail, PolicyChanges } from "../../api/schema";
import { text } from "../../texts";
import { bareAmount, count } from "../../ui/format";
import { visible } from "../../ui/UserText";

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

/** What a field of the form has at present, in words; null where the gateway does not tell it. */
export type Present = Record<"workers" | "usd" | "name" | "idle" | "without", string | null>;

/** The present values of the policy. */
export function presentOf({ max_workers, shapes, policy = null }: Pick<ClusterDetail, "max_workers" | "shapes" | "policy">): Present {
  const now = (value: string) => text("fleet.what_if.now", { value });
  const without = shapes.filter(({ most }) => most === 0).map(({ name }) => visible(name));
  const usd = policy === null ? null : policy.usd_per_hour === null ? text("fleet.what_if.now_unlimited") : bareAmount(Number(policy.usd_per_hour));
  return {
    workers: now(count(max_workers)),
    usd: usd === null ? null : now(usd),
    name: policy === null ? null : now(text(`fleet.what_if.${policy.name}`)),
    idle: policy === null ? null : now(`${count(policy.idle_seconds)} ${text("fleet.what_if.seconds")}`),
    without: now(without.length === 0 ? text("fleet.what_if.now_none") : without.join(", ")),
  };
}

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
