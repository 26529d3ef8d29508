/** Jobs as entries of the palette. */

import type { Job } from "../../api/schema";
import { stateWord } from "../../ui/stateWord";

/** What the palette tells of a job. */
export type FoundJob = Pick<Job, "job_id" | "name" | "user" | "state">;

/** The most jobs of the list that are looked through. */
const MOST_JOBS = 20_000;
const MOST_FOUND = 20;

/**
 * The jobs by number or name: those that the gateway found, the first of several answers about a job, and others of the list
 * that was read, which may be older than the answers.
 */
export function found(typed: string, answered: readonly FoundJob[], known: readonly FoundJob[] = []): FoundJob[] {
  const wanted = typed.trim().replace(/^#/, "").toLowerCase();
  if (wanted === "") return [];
  const jobs = new Map<string, FoundJob>();
  for (const job of answered) if (!jobs.has(job.job_id)) jobs.set(job.job_id, job);
  for (const job of known.slice(0, MOST_JOBS)) {
    if (jobs.size >= MOST_FOUND) break;
    const fits = job.job_id.startsWith(wanted) || job.name.toLowerCase().includes(wanted);
    if (fits && !jobs.has(job.job_id)) jobs.set(job.job_id, job);
  }
  return [...jobs.values()];
}

/** Its number, its owner and its state, in the words of all pages. */
export function detailsOf({ job_id, user, state }: FoundJob): string {
  return `#${job_id} · ${user} · ${stateWord(state)}`;
}
