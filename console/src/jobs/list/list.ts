/**
 * The list of jobs that a page keeps. Pages of the list, single records and events come in any order; each record knows
 * the position in the stream of events that it is complete to, so nothing older ever covers something newer.
 *
 * A change copies the array of rows, which is one copy of memory; the index by ids is shared between lists, because rows
 * are only added at its end, until one is dropped.
 */

import type { Job } from "../../api/schema";
import type { LiveEvent } from "../../live/event";
import { hasEnded } from "../../ui/jobStates";
import { arrayOf, taskOf, tasksOfRecord, without } from "../arrayTasks";
import { factOf, jobOf, keepEventFields, withFact, type Fact } from "./fact";

/** The most jobs that a page keeps. */
export const MOST_JOBS = 20_000;

export interface JobList {
  rows: readonly Job[];
  /** For each row, the position in the stream of events that it is complete to. */
  positions: readonly number[];
  /** The row of each id. */
  index: ReadonlyMap<string, number>;
  /** How many jobs the caller sees on the cluster, of which at most `MOST_JOBS` are kept. */
  total: number;
  /** The list has all events up to this position: that of its first page, until it follows the events. */
  position: number;
  /**
   * Whether it follows the events without a gap. Before, those between its first page and the newest one may still come,
   * so that none of them raises its position.
   */
  followed: boolean;
  /** Where the next page begins of what Slurm remembers; null once all pages were read, or as many as are kept. */
  cursor: string | null;
  /** When its first page was read, in milliseconds of the page's own clock: another reading is another list. */
  readAt: number;
  /** How far the accounting was read, for jobs that Slurm has forgotten; null before its first page. */
  history: History | null;
}

export interface History {
  /** The jobs that were submitted from this moment on. */
  since: string;
  cursor: string | null;
  done: boolean;
}

export interface JobsPage {
  jobs: readonly Job[];
  total: number;
  cursor?: string | null | undefined;
}

/**
 * The list of the first page. Of the list before it stay the jobs that ended: what else it had may have changed unseen,
 * while an ended job changes only by running again, which the pages tell.
 */
export function listOf(page: JobsPage, position: number, before?: JobList): JobList {
  const rows = before?.rows.filter(({ state }) => hasEnded(state)) ?? [];
  // Events after the page are told again, and of another stream of events they may have lower positions than before.
  const positions = rows.map(({ job_id }) => Math.min(position, before?.positions[before.index.get(job_id) ?? -1] ?? 0));
  const kept: JobList = {
    rows, positions, index: indexOf(rows), total: rows.length, position, followed: false, cursor: null, history: null, readAt: performance.now(),
  };
  return withPage(kept, page, position);
}

function indexOf(rows: readonly Job[]): Map<string, number> {
  return new Map(rows.map(({ job_id }, row) => [job_id, row]));
}

class Draft {
  readonly rows: Job[];
  readonly positions: number[];
  index: Map<string, number>;
  private readonly added: string[] = [];
  private owned: boolean;
  private dropped = new Set<string>();

  constructor(private readonly list: JobList) {
    this.rows = list.rows.slice();
    this.positions = list.positions.slice();
    this.index = list.index as Map<string, number>;
    this.owned = false;
  }

  at(id: string): number | undefined {
    return this.index.get(id);
  }

  put(job: Job, position: number): void {
    const row = this.at(job.job_id);
    if (row === undefined) {
      this.own();
      this.index.set(job.job_id, this.rows.length);
      this.rows.push(job);
      this.positions.push(position);
      this.added.push(job.job_id);
    } else {
      this.rows[row] = job;
      this.positions[row] = position;
    }
  }

  drop(id: string): void {
    if (this.at(id) !== undefined) this.dropped.add(id);
  }

  done(other: Pick<JobList, "total" | "position" | "cursor">): JobList {
    this.bound();
    if (this.dropped.size === 0) return { ...this.list, rows: this.rows, positions: this.positions, index: this.index, ...other };
    const kept = this.rows.map((_, row) => row).filter((row) => !this.dropped.has(this.rows[row]?.job_id ?? ""));
    const rows = kept.map((row) => this.rows[row] as Job);
    const positions = kept.map((row) => this.positions[row] as number);
    return { ...this.list, rows, positions, index: indexOf(rows), ...other };
  }

  get grown(): number {
    return this.added.length;
  }

  get lost(): number {
    return this.dropped.size;
  }

  /** Drops what is too much: of the jobs that ended the oldest, then of the others. New ones are shown so. */
  private bound(): void {
    const more = this.rows.length - this.dropped.size - MOST_JOBS;
    if (more <= 0) return;
    const rows = this.rows.filter(({ job_id }) => !this.dropped.has(job_id));
    const ended = rows.filter(({ state }) => hasEnded(state)).sort(byAge);
    const others = ended.length >= more ? [] : rows.filter(({ state }) => !hasEnded(state)).sort(byAge);
    for (const { job_id } of [...ended, ...others].slice(0, more)) this.dropped.add(job_id);
  }

  /** The index of a list that somebody still has must not learn of rows that it lacks. */
  private own(): void {
    if (!this.owned) this.index = new Map(this.list.index);
    this.owned = true;
  }
}

/** The list with a page that was read as of `position`. */
export function withPage(list: JobList, page: JobsPage, position: number): JobList {
  const draft = new Draft(list);
  for (const job of page.jobs) {
    const row = draft.at(job.job_id);
    const known = row === undefined ? 0 : (draft.positions[row] ?? 0);
    const current = row === undefined ? undefined : draft.rows[row];
    if (current === undefined || known <= position) draft.put(job, position);
    else draft.put(keepEventFields(job, current), known);
  }
  startedSince(draft, position);
  const cursor = draft.rows.length >= MOST_JOBS ? null : (page.cursor ?? null);
  return draft.done({ total: Math.max(page.total, draft.rows.length - draft.lost), position: list.position, cursor });
}

/** The list with a page of the jobs that were submitted from `since` on, also those that Slurm has forgotten. */
export function withHistory(list: JobList, since: string, page: JobsPage, position: number): JobList {
  const next = withPage(list, page, position);
  const done = next.rows.length >= MOST_JOBS || !page.cursor;
  return { ...next, cursor: list.cursor, history: { since, cursor: page.cursor ?? null, done } };
}

/** Whether all jobs were read: those that Slurm remembers, and those that were submitted from `since` on. */
export function isComplete(list: JobList, since: string): boolean {
  return list.cursor === null && list.history !== null && list.history.done && list.history.since <= since;
}

/** Tasks that events told of, while the page that has their array is older. */
function startedSince(draft: Draft, position: number): void {
  draft.rows.forEach((job, row) => {
    if ((draft.positions[row] ?? 0) > position) startedTask(draft, job.job_id);
  });
}

/** The list with one record, which was asked for when its row was complete to `asked`. */
export function withRecord(list: JobList, job: Job, asked: number): JobList {
  const row = list.index.get(job.job_id);
  const current = row === undefined ? undefined : list.rows[row];
  if (row === undefined || current === undefined) return list;
  const draft = new Draft(list);
  const known = list.positions[row] ?? 0;
  // A whole array is told with the state of its tasks; in the list its row is the tasks that wait, or never started.
  if (tasksOfRecord(job)) draft.put({ ...job, state: current.state, nodes: [], started_at: null, ended_at: current.ended_at ?? null }, known);
  else draft.put(known > asked ? keepEventFields(job, current) : job, known);
  const tasks = list.rows.filter(({ job_id }) => job_id.startsWith(`${job.job_id}_`));
  // An array that was read after its last task has started is no job beside them.
  if (tasks.length > 0 && !tasksOfRecord(job)) draft.drop(job.job_id);
  else for (const { job_id } of tasks) startedTask(draft, job_id);
  return draft.done({ total: list.total - draft.lost, position: list.position, cursor: list.cursor });
}

/** The list after events. Those that a row has already are left out. The same list where nothing changed. */
export function patched(list: JobList, events: readonly LiveEvent[]): JobList {
  const last = events.at(-1);
  if (last === undefined) return list;
  let draft: Draft | null = null;
  let total = list.total;
  // Pages to come, and what is left out of a full list, are counted already.
  const countsAll = list.cursor === null && list.total <= list.rows.length;
  const isOlder = olderThan(list);
  for (const event of events) {
    const fact = factOf(event);
    if (fact === null) continue;
    const row = draft === null ? list.index.get(fact.job_id) : draft.at(fact.job_id);
    const known = row === undefined ? list.position : ((draft ?? list).positions[row] ?? 0);
    if (event.position <= known || (row === undefined && isOlder(fact))) continue;
    draft ??= new Draft(list);
    const before = draft.grown - draft.lost;
    apply(draft, fact, row, event.position);
    if (countsAll || fact.kind === "job.submitted") total += draft.grown - draft.lost - before;
  }
  const position = list.followed ? Math.max(list.position, last.position) : list.position;
  if (draft === null) return position === list.position ? list : { ...list, position };
  return draft.done({ total: Math.max(total, draft.rows.length - draft.lost), position, cursor: list.cursor });
}

/** The list after all events since its position, which from then on follows those that come. */
export function followed(list: JobList, events: readonly LiveEvent[]): JobList {
  return patched(list.followed ? list : { ...list, followed: true }, events);
}

function apply(draft: Draft, fact: Fact, row: number | undefined, position: number): void {
  const current = row === undefined ? undefined : draft.rows[row];
  draft.put(current === undefined ? jobOf(fact) : withFact(current, fact), position);
  startedTask(draft, fact.job_id);
}

/** A task with a record of its own waits no longer in that of its array. */
function startedTask(draft: Draft, jobId: string): void {
  const task = taskOf(jobId);
  if (task === null) return;
  const array = arrayOf(jobId);
  const waiting = draft.at(array);
  const record = waiting === undefined ? undefined : draft.rows[waiting];
  if (record?.array_tasks === undefined || waiting === undefined) return;
  const rest = without(record.array_tasks, task);
  if (rest === "" && record.array_tasks !== "") draft.drop(array);
  else if (rest !== record.array_tasks) draft.put({ ...record, array_tasks: rest }, draft.positions[waiting] ?? 0);
}

/** Whether a job is older than all that a full list keeps. Where the list is not full none is. */
function olderThan(list: JobList): (job: { submitted_at: string }) => boolean {
  if (list.rows.length < MOST_JOBS) return () => false;
  let oldest: string | null = null;
  return ({ submitted_at }) => {
    oldest ??= list.rows.reduce((least, job) => (job.submitted_at < least ? job.submitted_at : least), "9999");
    return submitted_at < oldest;
  };
}

function byAge(one: Job, other: Job): number {
  if (one.submitted_at !== other.submitted_at) return one.submitted_at < other.submitted_at ? -1 : 1;
  return Number.parseInt(one.job_id, 10) - Number.parseInt(other.job_id, 10);
}
