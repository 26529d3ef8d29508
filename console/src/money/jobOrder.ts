/** The order of costs by job: by the numbers of the jobs, and of the tasks of an array below its own. Pure. */

import type { CostEntry } from "../api/schema";
import { arrayOf, taskOf } from "../jobs/arrayTasks";

/** More than an array has tasks: the numbers of tasks stay below that of the next job, and exact. */
const TASKS = 10_000_000;

/** A number that sorts a job; null of what is none. */
export function jobKey(jobId: string | null): number | null {
  const number = jobId === null ? Number.NaN : Number.parseInt(arrayOf(jobId), 10);
  if (jobId === null || Number.isNaN(number)) return null;
  return number * TASKS + Math.min((taskOf(jobId) ?? -1) + 1, TASKS - 1);
}

/** Rows of jobs in the order of their numbers, and what is no job after them. */
export function inJobOrder(rows: readonly CostEntry[]): CostEntry[] {
  const key = ({ job_id }: CostEntry) => jobKey(job_id) ?? Number.MAX_SAFE_INTEGER;
  return rows.toSorted((one, other) => key(one) - key(other));
}
