/** The events `scale.decided` as decisions: what each shape should have from then on, and why. */

import * as v from "valibot";
import type { ShapeAlternative } from "../api/schema";
import type { EventRecord } from "../live/event";

const VERDICTS = [
  "chosen",
  "preferred",
  "costlier",
  "unneeded",
  "by_rule",
  "limited",
  "unavailable",
  "too_small",
  "not_for_it",
] as const satisfies readonly ShapeAlternative["verdict"][];

const Alternative = v.object({
  shape: v.string(),
  usd_per_hour: v.number(),
  job_usd_per_hour: v.optional(v.nullable(v.number()), null),
  verdict: v.picklist(VERDICTS),
  text: v.optional(v.string(), ""),
});

const Change = v.object({
  shape: v.string(),
  replicas_before: v.number(),
  replicas_after: v.number(),
  victims: v.optional(v.array(v.string()), []),
  reason: v.optional(v.string(), ""),
  job_ids: v.optional(v.array(v.string()), []),
  // A verdict that only a newer release knows hides the comparison, and not the decision.
  alternatives: v.optional(v.fallback(v.array(Alternative), []), []),
});

const Data = v.object({
  kind: v.literal("scale.decided"),
  generation: v.number(),
  snapshot_generation: v.optional(v.number()),
  changes: v.array(Change),
});

export type Change = v.InferOutput<typeof Change>;

export interface Decision {
  id: string;
  at: string;
  generation: number;
  changes: Change[];
}

/** The decision of an event; null for an event of another kind, and for one that cannot be read. */
export function decisionOf(event: EventRecord): Decision | null {
  const read = v.safeParse(Data, event.data);
  if (!read.success) return null;
  return { id: event.id, at: event.time, generation: read.output.generation, changes: read.output.changes };
}

/** What a decision changed, in a line: `general-xs 0 → 2`. */
export function changesText(decision: Decision): string {
  return decision.changes.map(({ shape, replicas_before, replicas_after }) => `${shape} ${replicas_before} → ${replicas_after}`).join(", ");
}

/** Why it was decided, in a line. */
export function reasonsText(decision: Decision): string {
  return decision.changes.map(({ reason }) => reason).filter(Boolean).join("; ");
}

/** How many jobs a decision names. */
export function jobsCount(decision: Decision): number {
  return new Set(decision.changes.flatMap(({ job_ids }) => job_ids)).size;
}

/** Whether a decision bought workers for jobs and tells of no shape that it compared: one of an older release. */
export function lacksAlternatives({ changes }: Decision): boolean {
  const bought = changes.filter(({ job_ids, replicas_before, replicas_after }) => job_ids.length > 0 && replicas_after > replicas_before);
  return bought.length > 0 && bought.every(({ alternatives }) => alternatives.length === 0);
}
