/** The stages that a job passes, with their times: from its record, from why, and from its events. */

import type { JobExplanation, JobWithCost } from "../../api/schema";
import { hasEnded } from "../../ui/jobStates";

export type StageName = "submitted" | "decided" | "worker" | "running" | "requeued" | "ended";

export interface Stage {
  name: StageName;
  at: string;
  /** Seconds since the stage before; null of the first. */
  after: number | null;
}

interface Told {
  time: string;
  kind: string;
}

/** The stages that are over, in the order of their times. */
export function stagesOf(job: JobWithCost, why: JobExplanation | undefined, events: readonly Told[]): Stage[] {
  const found: { name: StageName; at: string }[] = [{ name: "submitted", at: job.submitted_at }];
  const decided = why?.bought?.map(({ decided_at }) => decided_at).toSorted()[0];
  if (decided !== undefined && decided >= job.submitted_at) found.push({ name: "decided", at: decided });
  for (const { kind, time } of events) if (kind === "job.requeued") found.push({ name: "requeued", at: time });
  if (job.started_at) found.push({ name: "running", at: job.started_at });
  if (job.ended_at && hasEnded(job.state)) found.push({ name: "ended", at: job.ended_at });
  found.sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
  return found.map((stage, number) => {
    const before = found[number - 1];
    return { ...stage, after: before === undefined ? null : Math.max(0, (Date.parse(stage.at) - Date.parse(before.at)) / 1000) };
  });
}

/** When the job should end: once it runs, at its time limit. */
export function latestEnd(job: JobWithCost): string | null {
  if (!job.started_at || !job.time_limit_seconds || hasEnded(job.state)) return null;
  return new Date(Date.parse(job.started_at) + job.time_limit_seconds * 1000).toISOString();
}
