/** Which decisions bought workers for a job: from its timeline, which keeps them, and from its explanation. */

import type { Purchase, Stage } from "../../api/schema";

export interface Bought {
  /** The number of the decision. */
  decision: number;
  at: string;
  shape: string;
  /** How many were bought, for this job and others; null where only the timeline tells of it. */
  workers: number | null;
  reason: string;
}

/** The purchases for a job, the first one first. The explanation forgets them when the job ends; the timeline does not. */
export function boughtFor(stages: readonly Stage[], purchases: readonly Purchase[]): Bought[] {
  const found = new Map<string, Bought>();
  for (const { stage, at, shape, decision_generation: decision, reason } of stages) {
    if (stage !== "decided" || !at || !shape || typeof decision !== "number") continue;
    found.set(`${decision} ${shape}`, { decision, at, shape, workers: null, reason: reason ?? "" });
  }
  for (const { decided_at, generation, shape, workers, reason } of purchases) {
    found.set(`${generation} ${shape}`, { decision: generation, at: decided_at, shape, workers, reason });
  }
  return [...found.values()].toSorted((one, other) => one.decision - other.decision);
}
