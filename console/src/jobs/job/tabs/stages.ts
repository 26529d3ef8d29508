/** The stages that a job has passed, with their times. */

import type { JobWithCost, Stage as ToldStage } from "../../../api/schema";
import { hasEnded } from "../../../ui/jobStates";

export interface Stage {
  name: ToldStage["stage"];
  at: string;
  /** Seconds since the stage before; null of the first. */
  after: number | null;
  /** The worker, its shape, or the reason, in the words of the API. */
  details: string;
  /** How many stages of this name it stands for. */
  times: number;
}

/** The stages that are over: those that the API tells; until it does, those of the job's own record. */
export function stagesOf(job: JobWithCost, told: readonly ToldStage[] | undefined): Stage[] {
  const stages = told ?? ownStages(job);
  const past: Stage[] = [];
  let last: Partial<ToldStage> = {};
  for (const { stage, at, ...rest } of stages) {
    if (at === null) continue;
    const before = past.at(-1);
    const after = rest.seconds_since_previous ?? (before === undefined ? null : (Date.parse(at) - Date.parse(before.at)) / 1000);
    past.push({
      name: stage,
      at,
      after: before === undefined || after === null ? null : Math.max(0, after),
      details: detailsOf(rest, last),
      times: 1,
    });
    last = { worker: rest.worker ?? last.worker ?? null, shape: rest.shape ?? last.shape ?? null };
  }
  return past;
}

/** With so many stages of one name in a row, as of an array with many workers, they are one. */
const MANY = 3;

/** Stages for a short line: many of one name in a row are one, at the time of the last. */
export function shortened(stages: readonly Stage[]): Stage[] {
  const runs: Stage[][] = [];
  for (const stage of stages) {
    const run = runs.at(-1);
    if (run?.[0]?.name === stage.name) run.push(stage);
    else runs.push([stage]);
  }
  return runs.flatMap((run) => {
    const [first, last] = [run[0], run.at(-1)];
    if (run.length < MANY || first === undefined || last === undefined) return run;
    const after = first.after === null ? null : run.reduce((sum, stage) => sum + (stage.after ?? 0), 0);
    return [{ name: first.name, at: last.at, after, details: "", times: run.length }];
  });
}

/** What is known of a stage, without what the stage before has told, and what another part of it has in it. */
function detailsOf(told: Partial<ToldStage>, last: Partial<ToldStage>): string {
  const { worker, shape, reason, detail } = told;
  const parts = [worker === last.worker ? null : worker, shape === last.shape ? null : shape, reason, detail];
  const known = parts.filter((part): part is string => Boolean(part));
  return known.filter((part) => !known.some((other) => other !== part && other.includes(part))).join(" · ");
}

function ownStages(job: JobWithCost): ToldStage[] {
  return [
    { stage: "submitted", at: job.submitted_at },
    { stage: "running", at: job.started_at ?? null },
    { stage: "ended", at: hasEnded(job.state) ? (job.ended_at ?? null) : null },
  ];
}

/** When the job should end: once it runs, at its time limit. */
export function latestEnd(job: JobWithCost): string | null {
  if (!job.started_at || !job.time_limit_seconds || hasEnded(job.state)) return null;
  return new Date(Date.parse(job.started_at) + job.time_limit_seconds * 1000).toISOString();
}
