/**
 * The list of jobs that a page keeps. Pages of the list, single records and events come in any order; each record knows
 * the position in the stream of events that it is complete to, so nothing older ever covers something newer.
 *
 * A change copies the array of rows, which is one copy of memory; the index by ids is shared between lists, because rows
 * are only added at its end, until one is dropped.
 */

import type { Job } from "../api/schema";
import type { LiveEvent } from "../live/event";
import { arrayOf, taskOf, without } from "./arrayTasks";
import { changes, factOf, jobOf, withTold, type Fact } from "./fact";

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
  /** The position of the newest event that was applied; that of the first page before the first event. */
  position: number;
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

/** The list of the first page. */
export function listOf(page: JobsPage, position: number): JobList {
  const none: JobList = { rows: [], positions: [], index: new Map(), total: 0, position, cursor: null, history: null, readAt: performance.now() };
  return withPage(none, page, position);
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
      if (this.rows.length >= MOST_JOBS) return;
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
    const { history, readAt } = this.list;
    if (this.dropped.size === 0) return { rows: this.rows, positions: this.positions, index: this.index, history, readAt, ...other };
    const kept = this.rows.map((_, row) => row).filter((row) => !this.dropped.has(this.rows[row]?.job_id ?? ""));
    const rows = kept.map((row) => this.rows[row] as Job);
    const positions = kept.map((row) => this.positions[row] as number);
    return { rows, positions, index: new Map(rows.map(({ job_id }, row) => [job_id, row])), history, readAt, ...other };
  }

  get grown(): number {
    return this.added.length;
  }

  get lost(): number {
    return this.dropped.size;
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
    else draft.put(withTold(job, current), known);
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
export function isWhole(list: JobList, since: string): boolean {
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
  // A whole array is told with the state of its tasks; in the list its row is the tasks that wait.
  if (job.array_tasks) draft.put({ ...job, state: current.state, nodes: [], started_at: null, ended_at: current.ended_at ?? null }, known);
  else draft.put(known > asked ? withTold(job, current) : job, known);
  const tasks = list.rows.filter(({ job_id }) => job_id.startsWith(`${job.job_id}_`));
  // An array that was read after its last task has started is no job beside them.
  if (tasks.length > 0 && !job.array_tasks) draft.drop(job.job_id);
  else for (const { job_id } of tasks) startedTask(draft, job_id);
  return draft.done({ total: list.total - draft.lost, position: list.position, cursor: list.cursor });
}

/** The list after events. Those that a row has already are left out. The same list where nothing changed. */
export function patched(list: JobList, events: readonly LiveEvent[]): JobList {
  const last = events.at(-1);
  if (last === undefined) return list;
  let draft: Draft | null = null;
  let total = list.total;
  const oldest = list.rows.length >= MOST_JOBS ? oldestOf(list) : null;
  for (const event of events) {
    const fact = factOf(event);
    if (fact === null) continue;
    const row = (draft ?? { at: (id: string) => list.index.get(id) }).at(fact.job_id);
    if (row === undefined && oldest !== null && fact.submitted_at < oldest) continue;
    if (row !== undefined && ((draft ?? list).positions[row] ?? 0) >= event.position) continue;
    if (row === undefined && event.position <= list.position) continue;
    draft ??= new Draft(list);
    const before = draft.grown - draft.lost;
    apply(draft, fact, row, event.position);
    // A job that pages to come still have is counted already.
    if (list.cursor === null || fact.kind === "job.submitted") total += draft.grown - draft.lost - before;
  }
  const position = Math.max(list.position, last.position);
  if (draft === null) return position === list.position ? list : { ...list, position };
  return draft.done({ total: Math.max(total, draft.rows.length - draft.lost), position, cursor: list.cursor });
}

function apply(draft: Draft, fact: Fact, row: number | undefined, position: number): void {
  const current = row === undefined ? undefined : draft.rows[row];
  draft.put(current === undefined ? jobOf(fact) : { ...current, ...changes(fact) }, position);
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

function oldestOf(list: JobList): string {
  return list.rows.reduce((oldest, { submitted_at }) => (submitted_at < oldest ? submitted_at : oldest), "9999");
}
