/** The rows of the table: jobs, and arrays folded to one row with counts by state, opened in place. */

import type { Job } from "../api/schema";
import { STATE_GROUPS, stateGroup, type StateGroup } from "../ui/jobStates";
import { arrayOf, taskCount, taskOf, tasksOfRecord } from "./arrayTasks";

export interface JobRow {
  kind: "job" | "task";
  id: string;
  /** The job that columns show; of an array, its newest record. */
  job: Job;
}

/** How many tasks are in each group of states. */
export type Counts = Partial<Record<StateGroup, number>>;

export interface ArrayRow {
  kind: "array";
  id: string;
  job: Job;
  tasks: readonly Job[];
  counts: Counts;
  total: number;
  /** How many tasks it has, those that the filters hide too. */
  whole: number;
  opened: boolean;
}

export type Row = JobRow | ArrayRow;

/** A row for each job, and one for each array, of which `all` has those tasks too that the filters hide. */
export function folded(jobs: readonly Job[], opened: ReadonlySet<string>, all: readonly Job[] = jobs): Row[] {
  const rows: Row[] = [];
  const arrays = new Map<string, Job[]>();
  for (const job of jobs) {
    if (!job.job_id.includes("_") && !tasksOfRecord(job)) {
      // The whole of an array that ended before its tasks were told apart is a job as any other.
      rows.push(jobRow(job));
      continue;
    }
    const id = arrayOf(job.job_id);
    const tasks = arrays.get(id);
    if (tasks === undefined) {
      const first: Job[] = [job];
      arrays.set(id, first);
      rows.push({ kind: "array", id, job, tasks: first, counts: {}, total: 0, whole: 0, opened: opened.has(id) });
    } else tasks.push(job);
  }
  const hidden = all === jobs || arrays.size === 0 ? null : sizesOf(all, arrays);
  for (const row of rows) {
    if (row.kind !== "array") continue;
    counted(row);
    row.whole = Math.max(row.total, hidden?.get(row.id) ?? 0);
  }
  return rows;
}

/** How many tasks each of these arrays has. */
function sizesOf(jobs: readonly Job[], arrays: ReadonlyMap<string, unknown>): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const job of jobs) {
    if (!job.job_id.includes("_") && !tasksOfRecord(job)) continue;
    const id = arrayOf(job.job_id);
    if (arrays.has(id)) sizes.set(id, (sizes.get(id) ?? 0) + sizeOf(job));
  }
  return sizes;
}

function sizeOf(job: Job): number {
  const tasks = tasksOfRecord(job);
  return tasks ? taskCount(tasks) : 1;
}

const made = new WeakMap<Job, JobRow>();

/** The same row for the same record, so that only what has changed is drawn again. */
function jobRow(job: Job): JobRow {
  const known = made.get(job);
  if (known !== undefined) return known;
  const row: JobRow = { kind: "job", id: job.job_id, job };
  made.set(job, row);
  return row;
}

function counted(row: ArrayRow): void {
  for (const task of row.tasks) {
    const group = stateGroup(task.state);
    const size = sizeOf(task);
    row.counts[group] = (row.counts[group] ?? 0) + size;
    row.total += size;
  }
  row.job = { ...row.job, ...summary(row.tasks), state: summaryState(row) };
}

/** The whole of an array in the columns: from its first submit and start to its last end. */
function summary(tasks: readonly Job[]): Pick<Job, "submitted_at" | "started_at" | "ended_at" | "nodes" | "reason"> {
  let submitted = tasks[0]?.submitted_at ?? "";
  let started: string | null = null;
  let ended: string | null = null;
  let over = true;
  for (const task of tasks) {
    if (task.submitted_at < submitted) submitted = task.submitted_at;
    if (task.started_at && (started === null || task.started_at < started)) started = task.started_at;
    if (!task.ended_at) over = false;
    else if (ended === null || task.ended_at > ended) ended = task.ended_at;
  }
  const waiting = tasks.find(({ state }) => stateGroup(state) === "waiting");
  return { submitted_at: submitted, started_at: started, ended_at: over ? ended : null, nodes: [], reason: waiting?.reason ?? "" };
}

const SUMMARY: readonly StateGroup[] = ["running", "starting", "waiting", "failed", "cancelled", "done"];

function summaryState(row: ArrayRow): string {
  const group = SUMMARY.find((each) => (row.counts[each] ?? 0) > 0);
  return row.tasks.find(({ state }) => stateGroup(state) === group)?.state ?? row.job.state;
}

export interface Order {
  value: (job: Job) => string | number | null | undefined;
  descending: boolean;
}

/** The rows in their order, the newest first without one; tasks of an open array below it, by their numbers. */
export function arranged(rows: readonly Row[], order: Order | null): Row[] {
  const wanted = order ?? { value: (job: Job) => Date.parse(job.submitted_at), descending: true };
  const keyed = rows.map((row) => ({ row, key: wanted.value(row.job), number: Number.parseInt(row.id, 10) }));
  const sign = wanted.descending ? -1 : 1;
  keyed.sort((one, other) => {
    const difference = compared(one.key, other.key);
    // What has no value comes last in both directions.
    if (difference === LAST || difference === -LAST) return difference;
    return difference * sign || other.number - one.number;
  });
  const arranged: Row[] = [];
  for (const { row } of keyed) {
    arranged.push(row);
    if (row.kind === "array" && row.opened) {
      const tasks = row.tasks.map((job): JobRow => ({ kind: "task", id: tasksOfRecord(job) ? `${job.job_id}_[]` : job.job_id, job }));
      arranged.push(...tasks.sort((one, other) => taskNumber(one.job) - taskNumber(other.job)));
    }
  }
  return arranged;
}

const LAST = 2;
type Key = string | number | null | undefined;

function compared(one: Key, other: Key): number {
  const missing = Number(isNone(one)) - Number(isNone(other));
  if (missing !== 0) return missing * LAST;
  if (isNone(one) || isNone(other) || one === other) return 0;
  return (one as string) < (other as string) ? -1 : 1;
}

function isNone(key: Key): key is null | undefined {
  return key === null || key === undefined || (typeof key === "number" && Number.isNaN(key));
}

/** What waits, or never started, comes last. */
function taskNumber(job: Job): number {
  return tasksOfRecord(job) ? Number.POSITIVE_INFINITY : (taskOf(job.job_id) ?? Number.POSITIVE_INFINITY);
}

/** The groups of an array that it has tasks in, with their numbers, in the order in which a job passes them. */
export function countsOf(counts: Counts): [StateGroup, number][] {
  return STATE_GROUPS.flatMap((group): [StateGroup, number][] => {
    const number = counts[group] ?? 0;
    return number > 0 ? [[group, number]] : [];
  });
}
