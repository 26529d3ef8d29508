/** What needs the person now: failed jobs of the last day, quotas that are nearly used, a cluster in trouble. */

import type { ClusterDetail, Job, QuotaView } from "../api/schema";
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
    const share = Number(quota.used.amount) / Number(quota.limit.amount);
    if (share >= NEARLY_USED) found.push({ kind: "quota", quota, share });
  }
  let failed = 0;
  for (const job of jobs) {
    if (failed === MOST_FAILED) break;
    if (job.user !== user || stateGroup(job.state) !== "failed") continue;
    if (job.ended_at === null || job.ended_at === undefined || now - Date.parse(job.ended_at) > DAY_MS) continue;
    found.push({ kind: "failed", job });
    failed += 1;
  }
  return found;
}
