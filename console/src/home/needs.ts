/** What needs the person now: failed jobs of the last day, budgets and quotas that are nearly used, a cluster in trouble. */

import type { BudgetView, ClusterDetail, Job, QuotaView } from "../api/schema";
import { share } from "../money/amounts";
import { stateGroup } from "../ui/jobStates";

export type Need =
  | { kind: "failed"; job: Job }
  | { kind: "degraded"; message: string; since: string }
  | { kind: "disconnected" }
  | { kind: "paused" }
  | { kind: "quota"; quota: QuotaView; share: number }
  | { kind: "budget"; budget: BudgetView; threshold: Threshold };

type Threshold = BudgetView["thresholds"][number];

const DAY_MS = 86_400_000;
/** The most failed jobs that are named. */
const MOST_FAILED = 5;
/** The most budgets of other people that an admin is told of. */
const MOST_OTHERS = 5;
/** From which share of a quota on it is told. */
const NEARLY_USED = 0.8;

interface Read {
  user: string;
  /** Whether they are an admin, who sees everybody's budgets. */
  admin: boolean;
  jobs: Iterable<Job>;
  cluster: ClusterDetail | undefined;
  quotas: readonly QuotaView[];
  budgets: readonly BudgetView[];
  now: number;
}

export function needs({ user, admin, jobs, cluster, quotas, budgets, now }: Read): Need[] {
  const found: Need[] = [];
  const others: Need[] = [];
  if (cluster !== undefined) {
    if (cluster.state === "paused") found.push({ kind: "paused" });
    if (cluster.connection_state === "disconnected") found.push({ kind: "disconnected" });
    for (const { message, since } of cluster.degraded ?? []) found.push({ kind: "degraded", message, since });
  }
  const month = new Date(now).toISOString().slice(0, "2026-01".length);
  for (const budget of budgets) {
    const mine = budget.scope === "user" ? !admin || budget.name === user : admin;
    const threshold = (mine || admin) && budget.month === month ? reached(budget) : undefined;
    if (threshold !== undefined) (mine ? found : others).push({ kind: "budget", budget, threshold });
  }
  found.push(...others.slice(0, MOST_OTHERS));
  for (const quota of quotas) {
    const used = share(quota.used, quota.limit);
    if (used >= NEARLY_USED) found.push({ kind: "quota", quota, share: used });
  }
  for (const job of failedOf(user, jobs, now)) found.push({ kind: "failed", job });
  return found;
}

/**
 * The highest threshold that was reached this month; one of what was used counts for more than one of the forecast. Not
 * one that is not reached any more: the limit was raised, or the forecast has fallen.
 */
function reached({ thresholds, limit, ...amounts }: BudgetView): Threshold | undefined {
  const crossed = thresholds.filter(({ measure, percent, crossed_at }) => {
    const amount = amounts[measure];
    return crossed_at !== null && (amount === null || share(amount, limit) * 100 >= percent);
  });
  const weight = ({ measure, percent }: Threshold) => (measure === "actual" ? 1e9 : 0) + percent;
  return crossed.reduce<Threshold | undefined>((most, each) => (most === undefined || weight(each) > weight(most) ? each : most), undefined);
}

/** The person's jobs that failed within a day: those that ended last, the newest first. */
function failedOf(user: string, jobs: Iterable<Job>, now: number): Job[] {
  const failed: { job: Job; ended: number }[] = [];
  for (const job of jobs) {
    if (job.user !== user || stateGroup(job.state) !== "failed" || !job.ended_at) continue;
    const ended = Date.parse(job.ended_at);
    if (now - ended <= DAY_MS) failed.push({ job, ended });
  }
  failed.sort((one, other) => other.ended - one.ended);
  return failed.slice(0, MOST_FAILED).map(({ job }) => job);
}
