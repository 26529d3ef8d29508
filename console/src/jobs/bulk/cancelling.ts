/** Cancels what a filter of the API matches: named first, then in rounds of as many as one request takes. */

import type { CancelledJob, JobFilter } from "../../api/schema";
import { cancelMany } from "../acts";
import type { Fate, Outcome } from "./plan";

const MOST_A_REQUEST = 200;

const OUTCOMES: Record<CancelledJob["outcome"], Outcome> = {
  would_cancel: "will",
  cancelled: "done",
  failed: "failed",
  not_tried: "not_tried",
};

function fateOf(told: CancelledJob): Fate {
  return {
    target: told.array_tasks ? `${told.job_id}_[${told.array_tasks}]` : told.job_id,
    name: told.name,
    state: told.state,
    outcome: OUTCOMES[told.outcome],
    detail: told.detail ?? "",
  };
}

export interface Rehearsal {
  /** The first of them. */
  fates: Fate[];
  total: number;
}

/** What would be cancelled. Nothing is. */
export async function rehearsed(cluster: string, filter: JobFilter): Promise<Rehearsal> {
  const told = await cancelMany(cluster, crypto.randomUUID(), { ...filter, limit: MOST_A_REQUEST, dry_run: true });
  return { fates: told.jobs.map(fateOf), total: told.total };
}

interface Run {
  cluster: string;
  filter: JobFilter;
  /** How many were named: no more are cancelled, whatever was submitted since. */
  total: number;
  /** The key of the first round. */
  key: string;
  progress: (fates: Fate[]) => void;
  signal: AbortSignal;
}

export async function cancelled({ cluster, filter, total, key, progress, signal }: Run): Promise<Fate[]> {
  const fates = new Map<string, Fate>();
  let round = 0;
  while (fates.size < total && !signal.aborted) {
    const limit = Math.min(MOST_A_REQUEST, total - fates.size);
    const told = await cancelMany(cluster, round === 0 ? key : `${key}-${round}`, { ...filter, limit });
    const before = fates.size;
    for (const job of told.jobs) {
      const fate = fateOf(job);
      fates.set(fate.target, fate);
    }
    progress([...fates.values()]);
    // Jobs that cannot be cancelled match again: a round that brings nothing new is the last.
    if (fates.size === before || told.total <= told.jobs.length) break;
    round += 1;
  }
  return [...fates.values()];
}
