/** The tasks of an array as its page lists them: those that failed first. Pure. */

import type { Job } from "../api/schema";
import { stateGroup } from "../ui/jobStates";
import { arrayOf, taskOf, tasksOfRecord } from "./arrayTasks";

/** The most tasks that the page lists. */
export const MOST_TASKS = 100;

type Known = Pick<Job, "job_id" | "array_tasks" | "unstarted_tasks" | "standard_output">;

/** Whether a job is an array as a whole. Slurm has put the number of the task into the path of a task's own output. */
export function isArray(job: Known): boolean {
  return !job.job_id.includes("_") && (tasksOfRecord(job) !== "" || /%[0-9]{0,2}a/.test(job.standard_output ?? ""));
}

/** The records of the array among those that were found, once each. */
export function recordsOf(array: string, found: readonly Job[]): Job[] {
  return [...new Map(found.filter(({ job_id }) => arrayOf(job_id) === array).map((job) => [job.job_id, job])).values()];
}

/** The records that the page lists: failed, then running, then the rest, by their numbers. */
export function listedTasks(records: readonly Job[]): Job[] {
  return records
    .toSorted((one, other) => rank(one) - rank(other) || (taskOf(one.job_id) ?? Infinity) - (taskOf(other.job_id) ?? Infinity))
    .slice(0, MOST_TASKS);
}

const RANKS = ["failed", "running", "starting"];

function rank({ state }: Job): number {
  const at = RANKS.indexOf(stateGroup(state));
  return at === -1 ? RANKS.length : at;
}
