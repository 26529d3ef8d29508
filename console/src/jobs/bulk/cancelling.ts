/** Cancels what a filter of the API matches: named first, then in rounds of as many as one request takes. */

import type { CancelledJob, JobFilter } from "../../api/schema";
import { cancelMany } from "../actions";
import type { BulkEntry, Outcome } from "./plan";

const MOST_A_REQUEST = 200;

const OUTCOMES: Record<CancelledJob["outcome"], Outcome> = {
  would_cancel: "will",
  cancelled: "done",
  failed: "failed",
  not_tried: "not_tried",
};

function entryOf(told: CancelledJob): BulkEntry {
  return {
    target: told.array_tasks ? `${told.job_id}_[${told.array_tasks}]` : told.job_id,
    name: told.name,
    state: told.state,
    outcome: OUTCOMES[told.outcome],
    detail: told.detail ?? "",
  };
}

export interface DryRun {
  /** The first of them. */
  entries: BulkEntry[];
  total: number;
}

/** What would be cancelled. Nothing is. */
export async function cancelDryRun(cluster: string, filter: JobFilter): Promise<DryRun> {
  const told = await cancelMany(cluster, crypto.randomUUID(), { ...filter, limit: MOST_A_REQUEST, dry_run: true });
  return { entries: told.jobs.map(entryOf), total: told.total };
}

interface Run {
  cluster: string;
  filter: JobFilter;
  /** How many were named: no more are cancelled, whatever was submitted since. */
  total: number;
  /** The key of the first round. */
  key: string;
  progress: (entries: BulkEntry[]) => void;
  signal: AbortSignal;
}

export async function cancelled({ cluster, filter, total, key, progress, signal }: Run): Promise<BulkEntry[]> {
  const entries = new Map<string, BulkEntry>();
  let round = 0;
  while (entries.size < total && !signal.aborted) {
    const limit = Math.min(MOST_A_REQUEST, total - entries.size);
    const told = await cancelMany(cluster, round === 0 ? key : `${key}-${round}`, { ...filter, limit });
    const before = entries.size;
    for (const job of told.jobs) {
      const entry = entryOf(job);
      entries.set(entry.target, entry);
    }
    progress([...entries.values()]);
    // Jobs that cannot be cancelled match again: a round that brings nothing new is the last.
    if (entries.size === before || told.total <= told.jobs.length) break;
    round += 1;
  }
  return [...entries.values()];
}
