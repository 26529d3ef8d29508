/** Which rows of the list are chosen: all that match the filters, or single ones. It is kept by the page, and not in its URL. */

import type { Job } from "../../api/schema";
import { arrayOf, tasksTogether } from "../arrayTasks";
import type { Row } from "../rows";

/** `all`: those too that match later. Else the ids of rows; that of an array stands for all of its tasks. */
export type Choice = "all" | ReadonlySet<string>;

export const NO_CHOICE: Choice = new Set<string>();

/** The most jobs that are changed one by one in one go. What the filters mean has no such bound. */
export const MOST_CHOSEN = 500;

export function isEmpty(choice: Choice): boolean {
  return choice !== "all" && choice.size === 0;
}

/** The id of a job's own row: of the tasks of an array that one record stands for, the row in the opened array. */
function rowOf(job: Job): string {
  return tasksTogether(job) ? `${job.job_id}_[]` : job.job_id;
}

/** The id of the row that a job is part of while arrays are folded. */
function foldedRowOf(job: Job): string {
  return arrayOf(job.job_id);
}

function isChosen(choice: Choice, job: Job): boolean {
  return choice === "all" || choice.has(foldedRowOf(job)) || choice.has(rowOf(job));
}

/** The chosen ones of the jobs that match the filters. */
export function chosenOf(choice: Choice, matching: readonly Job[]): readonly Job[] {
  if (choice === "all") return matching;
  return choice.size === 0 ? [] : matching.filter((job) => isChosen(choice, job));
}

/** How much of a row is chosen. */
export function chosenPart(choice: Choice, row: Row): "all" | "some" | "none" {
  if (choice === "all" || choice.has(row.id)) return "all";
  if (choice.size === 0) return "none";
  if (row.kind !== "array") return isChosen(choice, row.job) ? "all" : "none";
  const first = row.tasks[0];
  const chosen = first !== undefined && isChosen(choice, first);
  if (row.tasks.some((job) => isChosen(choice, job) !== chosen)) return "some";
  return chosen ? "all" : "none";
}

/** The choice with a row or, if all of it is chosen, without it. */
export function toggled(choice: Choice, row: Row, matching: readonly Job[]): Choice {
  const within = row.kind === "array" ? new Set(row.tasks.map(rowOf)) : null;
  if (chosenPart(choice, row) !== "all") {
    const more = new Set(choice);
    for (const task of within ?? []) more.delete(task);
    return more.add(row.id);
  }
  const less = choice === "all" ? new Set(matching.map(foldedRowOf)) : new Set(choice);
  less.delete(row.id);
  for (const task of within ?? []) less.delete(task);
  const array = arrayOf(row.id);
  // One task of an array that was chosen as a whole: the others stay.
  if (row.kind === "task" && less.delete(array)) {
    for (const job of matching) if (foldedRowOf(job) === array && rowOf(job) !== row.id) less.add(rowOf(job));
  }
  return less;
}
