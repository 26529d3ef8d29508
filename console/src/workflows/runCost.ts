/** What a run costs: its jobs together, with those of steps that were tried before. Pure. */

import type { Cost, RunView } from "../api/schema";

export interface RunCost {
  /** In USD, of the jobs whose cost is known. */
  amount: number;
  /** How many jobs have a cost that is not known, or only in part. */
  unknown: number;
  /** The time of the oldest of these costs; null before there is one. */
  asOf: string | null;
}

/** All jobs of a run, the latest attempts last. */
export function attemptsOf(run: RunView): Set<string> {
  return new Set([...run.steps.flatMap((step) => step.earlier_jobs), ...run.steps.flatMap(({ job_id }) => (job_id === null ? [] : [job_id]))]);
}

/** Of these jobs, from the costs that were read. */
export function costOf(jobs: ReadonlySet<string>, costs: ReadonlyMap<string, Cost | null>): RunCost {
  const found = [...jobs].map((id) => costs.get(id) ?? null);
  const known = found.flatMap((cost) => (cost?.total ? [cost] : []));
  return {
    amount: known.reduce((sum, { total }) => sum + Number(total?.amount ?? 0), 0),
    unknown: found.filter((cost) => !cost?.total || cost.unknown).length,
    asOf: known.map(({ as_of }) => as_of).toSorted()[0] ?? null,
  };
}
