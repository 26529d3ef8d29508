/** What needs the person now: failed jobs of the last day, quotas that are nearly used, a cluster in trouble. */

import type { ClusterDetail, Job, QuotaView } from "../api/schema";
import { share } from "../money/amounts";
import { stateGroup } from "../ui/jobStates";

export type Need =
  | { kind: "failed"; job: Job }
  | { kind: "degraded"; message: string; since: string }
  | { kind: "disconnected" }
  | { kind: "paused" }
  | { kind: "quota"; quota: QuotaView; share: number };

const DAY_MS = 86_400_000;
/** The most failed jobs that are named. */
const MOST_FAILED = 5;
/** From which share of a quota on it is told. */
const NEARLY_USED = 0.8;

interface Read {
  user: string;
  jobs: Iterable<Job>;
  cluster: ClusterDetail | undefined;
  quotas: readonly QuotaView[];
  now: number;
}

export function needs({ user, jobs, cluster, quotas, now }: Read): Need[] {
  const found: Need[] = [];
  if (cluster !== undefined) {
    if (cluster.state === "paused") found.push({ kind: "paused" });
    if (cluster.connection_state === "disconnected") found.push({ kind: "disconnected" });
    for (const { message, since } of cluster.degraded ?? []) found.push({ kind: "degraded", message, since });
  }
  for (const quota of quotas) {
    const used = share(quota.used, quota.limit);
    if (used >= NEARLY_USED) found.push({ kind: "quota", quota, share: used });
  }
  for (const job of failedOf(user, jobs, now)) found.push({ kind: "failed", job });
  return found;
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
