/** The events `scale.decided` as decisions: what each shape should have from then on, and why. */

import * as v from "valibot";
import type { EventRecord } from "../live/event";

const Change = v.object({
  shape: v.string(),
  replicas_before: v.number(),
  replicas_after: v.number(),
  victims: v.optional(v.array(v.string()), []),
  reason: v.optional(v.string(), ""),
  job_ids: v.optional(v.array(v.string()), []),
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
