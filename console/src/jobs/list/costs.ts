/** What the jobs of the list cost, beside the list: a map by ids, filled by pages, the newest jobs first. */

import type { Cost, Job } from "../../api/schema";
import type { Row } from "../rows";
import { MOST_JOBS } from "./list";

export interface ListCosts {
  /** By job ID; at most as many as a list has jobs, those that were read last. */
  known: ReadonlyMap<string, Cost>;
  /**
   * What the next page reads: jobs submitted since the beginning of the list, then older ones that have not ended. Null
   * once all were read.
   */
  next: { part: "since" | "before"; cursor: string | null } | null;
  /** Jobs that were submitted after this time are on no further page; null before the first one. */
  oldest: string | null;
}

export interface CostsPage {
  jobs: readonly Job[];
  cursor?: string | null | undefined;
  costs?: Readonly<Record<string, Cost>> | null | undefined;
}

export const NO_COSTS: ListCosts = { known: new Map(), next: { part: "since", cursor: null }, oldest: null };

/** With the next page of them, read `at` this time: jobs that were submitted later are on no further page, either. */
export function withNext(costs: ListCosts, page: CostsPage, at = new Date()): ListCosts {
  const last = page.jobs.at(-1)?.submitted_at ?? costs.oldest ?? at.toISOString();
  return { known: merged(costs.known, page), next: after(costs.next, page.cursor ?? null), oldest: last };
}

/** With newer costs of some jobs. */
export function withNewer(costs: ListCosts, page: CostsPage): ListCosts {
  return { ...costs, known: merged(costs.known, page) };
}

function after(next: ListCosts["next"], cursor: string | null): ListCosts["next"] {
  if (next === null) return null;
  if (cursor !== null) return { part: next.part, cursor };
  return next.part === "since" ? { part: "before", cursor: null } : null;
}

function merged(known: ListCosts["known"], page: CostsPage): ListCosts["known"] {
  const after = new Map(known);
  for (const [id, cost] of Object.entries(page.costs ?? {})) {
    after.delete(id);
    after.set(id, cost);
  }
  for (const id of after.keys()) {
    if (after.size <= MOST_JOBS) break;
    after.delete(id);
  }
  return after;
}

export interface RowCost {
  /** In USD; null where it is unknown. */
  amount: number | null;
  /** The time until which it counts, of several that of the oldest; null for what has not run. */
  asOf: string | null;
  /** Whether it lacks a part whose price is not known. */
  part: boolean;
  stale: boolean;
}

/** Null while it is not read. A job that has never run costs nothing, which needs no reading. */
function costOfJob(job: Job, known: ListCosts["known"]): RowCost | null {
  if (!job.started_at && !job.restarts) return { amount: 0, asOf: null, part: false, stale: false };
  const cost = known.get(job.job_id);
  if (cost === undefined) return null;
  return { amount: cost.total === null ? null : Number(cost.total.amount), asOf: cost.as_of, part: cost.unknown || isEarlier(cost.as_of, job.ended_at), stale: cost.stale };
}

/** Whether a cost is of a time before the end of its job: it is less than the whole then. */
function isEarlier(asOf: string, endedAt: string | null | undefined): boolean {
  return Boolean(endedAt) && Date.parse(asOf) < Date.parse(endedAt as string);
}

/** The cost of a row; of an array the sum of its tasks, once all of them and their costs are here. */
export function costOfRow(row: Row, known: ListCosts["known"], whole: boolean): RowCost | null {
  if (row.kind !== "array") return costOfJob(row.job, known);
  if (!whole) return null;
  const sum: RowCost = { amount: 0, asOf: null, part: false, stale: false };
  for (const task of row.tasks) {
    const cost = costOfJob(task, known);
    if (cost === null) return null;
    sum.amount = sum.amount === null || cost.amount === null ? null : sum.amount + cost.amount;
    if (cost.asOf !== null && (sum.asOf === null || cost.asOf < sum.asOf)) sum.asOf = cost.asOf;
    sum.part ||= cost.part;
    sum.stale ||= cost.stale;
  }
  return sum;
}

/** Whether the next page may have a cost that this row lacks: pages go back in time, so newer jobs are not on it. */
export function isFurtherOn(row: Row, costs: ListCosts): boolean {
  if (costs.next === null) return false;
  const { oldest } = costs;
  const jobs = row.kind === "array" ? row.tasks : [row.job];
  return jobs.some((job) => costOfJob(job, costs.known) === null && (oldest === null || job.submitted_at <= oldest));
}
