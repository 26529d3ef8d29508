/** What an act on many jobs will do to each of them, and what it did. */

import type { Job } from "../../api/schema";
import { hasEnded, stateGroup } from "../../ui/jobStates";

export type Action = "cancel" | "hold" | "release";
export type Outcome = "will" | "skipped" | "done" | "failed" | "not_tried";

export interface BulkEntry {
  /** What is acted on: a job, or the waiting tasks of an array. */
  target: string;
  name: string;
  state: string;
  outcome: Outcome;
  detail: string;
}

/** What will become of each job: those that the act cannot change are left alone. */
export function planned(act: Action, jobs: readonly Job[]): BulkEntry[] {
  return jobs.map((job) => ({
    target: targetOf(act, job),
    name: job.name,
    state: job.state,
    outcome: applies(act, job) ? "will" : "skipped",
    detail: "",
  }));
}

/** Whether an act changes a job. */
export function applies(act: Action, job: Job): boolean {
  switch (act) {
    case "cancel":
      return !hasEnded(job.state);
    case "hold":
      return stateGroup(job.state) === "waiting" && !isHeld(job) && !job.job_id.includes("_");
    case "release":
      return stateGroup(job.state) === "waiting" && isHeld(job) && !job.job_id.includes("_");
  }
}

/** Whether a waiting job is held, by its owner or by an admin. */
export function isHeld(job: Pick<Job, "reason">): boolean {
  return (job.reason ?? "").startsWith("JobHeld");
}

/** Slurm holds the waiting tasks of an array only together; they are cancelled apart from those that run. */
function targetOf(act: Action, job: Job): string {
  if (act !== "cancel" || !job.array_tasks || job.array_tasks.includes("...")) return job.job_id;
  return `${job.job_id}_[${job.array_tasks.replace(/%.*/, "")}]`;
}

/** How many have each outcome. */
export function tally(entries: readonly BulkEntry[]): Record<Outcome, number> {
  const counts: Record<Outcome, number> = { will: 0, skipped: 0, done: 0, failed: 0, not_tried: 0 };
  for (const { outcome } of entries) counts[outcome] += 1;
  return counts;
}

/** The entries with what matters first: failures, then what was done, then what was left alone. */
export function byImportance(entries: readonly BulkEntry[]): BulkEntry[] {
  const order: Record<Outcome, number> = { failed: 0, not_tried: 1, will: 2, done: 3, skipped: 4 };
  return entries.toSorted((one, other) => order[one.outcome] - order[other.outcome]);
}

interface Run {
  entries: readonly BulkEntry[];
  act: (target: string) => Promise<void>;
  /** Told after each job, with the entries so far. */
  progress: (entries: BulkEntry[]) => void;
  signal: AbortSignal;
  atOnce?: number;
}

const AT_ONCE = 4;

/** Acts on each job, a few at once. A failure stops nothing but is its outcome; after an abort the rest is not tried. */
export async function runEach({ entries, act, progress, signal, atOnce = AT_ONCE }: Run): Promise<BulkEntry[]> {
  const results = entries.map((entry) => ({ ...entry }));
  const queue = results.filter(({ outcome }) => outcome === "will").values();
  async function work(): Promise<void> {
    for (const entry of queue) {
      if (signal.aborted) {
        entry.outcome = "not_tried";
        continue;
      }
      try {
        await act(entry.target);
        entry.outcome = "done";
      } catch (error) {
        entry.outcome = "failed";
        entry.detail = error instanceof Error ? error.message : String(error);
      }
      progress([...results]);
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work));
  return results;
}
