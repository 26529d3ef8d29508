/** The stages that a job passes, with their times: from its record, from why, and from its events. */

import type { JobExplanation, JobWithCost } from "../../api/schema";
import { hasEnded } from "../../ui/jobStates";

export type StageName = "submitted" | "decided" | "running" | "requeued" | "ended";

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
  if (decided !== undefined && Date.parse(decided) >= Date.parse(job.submitted_at)) found.push({ name: "decided", at: decided });
  for (const { kind, time } of events) if (kind === "job.requeued") found.push({ name: "requeued", at: time });
  if (job.started_at) found.push({ name: "running", at: job.started_at });
  if (job.ended_at && hasEnded(job.state)) found.push({ name: "ended", at: job.ended_at });
  // Slurm's times are whole seconds: within one, the stages are in the order in which a job passes them.
  found.sort((one, other) => second(one.at) - second(other.at) || ORDER.indexOf(one.name) - ORDER.indexOf(other.name));
  return found.map((stage, number) => {
    const before = found[number - 1];
    return { ...stage, after: before === undefined ? null : Math.max(0, (Date.parse(stage.at) - Date.parse(before.at)) / 1000) };
  });
}

const ORDER: readonly StageName[] = ["submitted", "decided", "requeued", "running", "ended"];

function second(moment: string): number {
  return Math.floor(Date.parse(moment) / 1000);
}

/** When the job should end: once it runs, at its time limit. */
export function latestEnd(job: JobWithCost): string | null {
  if (!job.started_at || !job.time_limit_seconds || hasEnded(job.state)) return null;
  return new Date(Date.parse(job.started_at) + job.time_limit_seconds * 1000).toISOString();
}
