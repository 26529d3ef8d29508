/** Which rows of the list are selected: all that match the filters, or single ones. It is kept by the page, and not in its URL. */

import type { Job } from "../../api/schema";
import { arrayOf, tasksOfRecord } from "../arrayTasks";
import type { Row } from "../rows";

/** `all`: those too that match later. Else the ids of rows; that of an array stands for all of its tasks. */
export type RowSelection = "all" | ReadonlySet<string>;

export const NO_SELECTION: RowSelection = new Set<string>();

/** The most jobs that are changed one by one in one go. What the filters mean has no such bound. */
export const MOST_SELECTED = 500;

export function isEmpty(selection: RowSelection): boolean {
  return selection !== "all" && selection.size === 0;
}

/** The id of a job's own row: of the tasks of an array that one record stands for, the row in the opened array. */
function rowOf(job: Job): string {
  return tasksOfRecord(job) ? `${job.job_id}_[]` : job.job_id;
}

/** The id of the row that a job is part of while arrays are folded. */
function foldedRowOf(job: Job): string {
  return arrayOf(job.job_id);
}

function isSelected(selection: RowSelection, job: Job): boolean {
  return selection === "all" || selection.has(foldedRowOf(job)) || selection.has(rowOf(job));
}

/** The selected ones of the jobs that match the filters. */
export function selectedOf(selection: RowSelection, matching: readonly Job[]): readonly Job[] {
  if (selection === "all") return matching;
  return selection.size === 0 ? [] : matching.filter((job) => isSelected(selection, job));
}

/** How much of a row is selected. */
export function selectedPart(selection: RowSelection, row: Row): "all" | "some" | "none" {
  if (selection === "all" || selection.has(row.id)) return "all";
  if (selection.size === 0) return "none";
  if (row.kind !== "array") return isSelected(selection, row.job) ? "all" : "none";
  const first = row.tasks[0];
  const selected = first !== undefined && isSelected(selection, first);
  if (row.tasks.some((job) => isSelected(selection, job) !== selected)) return "some";
  return selected ? "all" : "none";
}

/** The selection with a row or, if all of it is selected, without it. */
export function toggled(selection: RowSelection, row: Row, matching: readonly Job[]): RowSelection {
  const within = row.kind === "array" ? new Set(row.tasks.map(rowOf)) : null;
  if (selectedPart(selection, row) !== "all") {
    const more = new Set(selection);
    for (const task of within ?? []) more.delete(task);
    return more.add(row.id);
  }
  const less = selection === "all" ? new Set(matching.map(foldedRowOf)) : new Set(selection);
  less.delete(row.id);
  for (const task of within ?? []) less.delete(task);
  const array = arrayOf(row.id);
  // One task of an array that was selected as a whole: the others stay.
  if (row.kind === "task" && less.delete(array)) {
    for (const job of matching) if (foldedRowOf(job) === array && rowOf(job) !== row.id) less.add(rowOf(job));
  }
  return less;
}
