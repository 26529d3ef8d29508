/** The filters of the list: each is chosen from a list or is a text, so that none can be wrong. All are in the URL. */

import * as v from "valibot";
import type { Job, JobFilter, paths } from "../../api/schema";
import { dayParam } from "../../app/searchParams";
import { STATE_GROUPS, stateGroup, type StateGroup } from "../../ui/jobStates";
import { arrayOf } from "../arrayTasks";

const MOST_CHOSEN = 50;
const MOST_CHARACTERS = 200;
/** The API searches for no longer text. */
const MOST_SEARCHED = 100;

const Text = v.pipe(v.string(), v.trim(), v.nonEmpty(), v.maxLength(MOST_CHARACTERS));
const Word = v.union([Text, v.pipe(v.number(), v.transform(String))]);
const Chosen = v.pipe(v.array(Word), v.nonEmpty(), v.maxLength(MOST_CHOSEN));

function orNone<Schema extends v.GenericSchema>(schema: Schema) {
  return v.fallback(v.optional(schema), undefined);
}

/** The search params of the list. What cannot be read is left out. */
export const JobsSearch = v.object({
  states: orNone(v.pipe(v.array(v.picklist(STATE_GROUPS)), v.nonEmpty())),
  users: orNone(Chosen),
  accounts: orNone(Chosen),
  partitions: orNone(Chosen),
  since: dayParam,
  until: dayParam,
  find: orNone(Word),
  sort: orNone(v.string()),
  descending: orNone(v.boolean()),
  columns: orNone(Chosen),
  open: orNone(Chosen),
});

export type JobsSearch = v.InferOutput<typeof JobsSearch>;
export type CountsFilter = NonNullable<paths["/v1/clusters/{cluster_id}/jobs/counts"]["get"]["parameters"]["query"]>;
export type Filters = Pick<JobsSearch, "states" | "users" | "accounts" | "partitions" | "since" | "until" | "find">;

/** The filters of which several values can be chosen from what the jobs have. */
export const LISTS = ["users", "accounts", "partitions"] as const satisfies readonly (keyof Filters)[];
const FILTERS = ["states", "users", "accounts", "partitions", "since", "until", "find"] as const satisfies readonly (keyof Filters)[];

/** The filters that are set. */
export function filtersOf(search: JobsSearch): Filters {
  return Object.fromEntries(FILTERS.filter((key) => search[key] !== undefined).map((key) => [key, search[key]]));
}

export function isFiltered(filters: Filters): boolean {
  return FILTERS.some((key) => filters[key] !== undefined);
}

/** The jobs that match all filters. Days are those of the viewer, both inclusive. */
export function filtered(jobs: readonly Job[], filters: Filters): readonly Job[] {
  if (!isFiltered(filters)) return jobs;
  const groups = filters.states === undefined ? null : new Set<StateGroup>(filters.states);
  const users = filters.users && new Set(filters.users);
  const accounts = filters.accounts && new Set(filters.accounts);
  const partitions = filters.partitions && new Set(filters.partitions);
  const since = filters.since === undefined ? Number.NEGATIVE_INFINITY : startOfDay(filters.since, 0);
  const until = filters.until === undefined ? Number.POSITIVE_INFINITY : startOfDay(filters.until, 1);
  const dated = filters.since !== undefined || filters.until !== undefined;
  const find = filters.find?.toLowerCase();
  return jobs.filter((job) => {
    if (groups !== null && !groups.has(stateGroup(job.state))) return false;
    if (users && !users.has(job.user)) return false;
    if (accounts && !accounts.has(job.account ?? "")) return false;
    if (partitions && !partitions.has(job.partition)) return false;
    if (dated) {
      const submitted = Date.parse(job.submitted_at);
      if (submitted < since || submitted >= until) return false;
    }
    return find === undefined || found(job, find);
  });
}

/** How many jobs were submitted from the day of the filter on, whatever its other filters; null where it has no day. */
export function sinceItsDay(jobs: readonly Job[], { since }: Filters): { day: string; total: number } | null {
  if (since === undefined) return null;
  const begin = startOfDay(since, 0);
  return { day: since, total: jobs.filter(({ submitted_at }) => Date.parse(submitted_at) >= begin).length };
}

/** Part of the name, or the beginning of the number; with `#` before it, the number alone. */
function found(job: Job, find: string): boolean {
  if (find.startsWith("#")) return job.job_id === find.slice(1) || arrayOf(job.job_id) === find.slice(1);
  return job.name.toLowerCase().includes(find) || job.job_id.startsWith(find);
}

/** The beginning of a day in the viewer's zone, `days` later. */
function startOfDay(day: string, days: number): number {
  const moment = new Date(`${day}T00:00:00`);
  moment.setDate(moment.getDate() + days);
  return moment.getTime();
}

export interface Choices {
  users: string[];
  accounts: string[];
  partitions: string[];
}

/** What the lists offer: what the jobs have, and what is chosen already. */
export function choicesOf(jobs: readonly Job[], filters: Filters): Choices {
  const users = new Set(filters.users);
  const accounts = new Set(filters.accounts);
  const partitions = new Set(filters.partitions);
  for (const job of jobs) {
    users.add(job.user);
    if (job.account) accounts.add(job.account);
    partitions.add(job.partition);
  }
  return { users: sorted(users), accounts: sorted(accounts), partitions: sorted(partitions) };
}

function sorted(values: Set<string>): string[] {
  return [...values].sort((one, other) => one.localeCompare(other));
}

const CANCELLABLE: Partial<Record<StateGroup, readonly ("PENDING" | "RUNNING" | "SUSPENDED")[]>> = {
  waiting: ["PENDING"],
  running: ["RUNNING", "SUSPENDED"],
};

/**
 * The filter of the API that means the same jobs; null where it has none, so that each job is named. The API's filter is
 * for one person: `me` where the list is filtered to nobody else and has no other person's jobs.
 */
export function apiFilter(filters: Filters, users: ReadonlySet<string>, me: string): JobFilter | null {
  if (filters.find !== undefined || filters.accounts || filters.since || filters.until) return null;
  if ((filters.partitions?.length ?? 0) > 1) return null;
  const [user = me, ...others] = filters.users ?? [...users];
  if (others.length > 0) return null;
  const states = filters.states?.filter((group) => group !== "done" && group !== "failed" && group !== "cancelled");
  if (states?.includes("starting") || states?.length === 0) return null;
  const [partition] = filters.partitions ?? [];
  return {
    ...(states === undefined ? {} : { state: states.flatMap((group) => CANCELLABLE[group] ?? []) }),
    ...(partition === undefined ? {} : { partition }),
    user,
  };
}

/** The filters of the API's counts that mean the same jobs, whatever their states; null where it has none. Jobs from before `known` are not counted. */
export function countsFilter(filters: Filters, known: Date): CountsFilter | null {
  if (LISTS.some((key) => (filters[key]?.length ?? 0) > 1)) return null;
  const { since, until } = filters;
  const wanted = {
    user: filters.users?.[0],
    account: filters.accounts?.[0],
    partition: filters.partitions?.[0],
    search: filters.find?.replace(/^#/, "").slice(0, MOST_SEARCHED) || undefined,
    submitted_after: (since === undefined ? known : new Date(startOfDay(since, 0))).toISOString(),
    // The API's bounds are both inclusive.
    submitted_before: until === undefined ? undefined : new Date(startOfDay(until, 1) - 1).toISOString(),
  };
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined));
}
