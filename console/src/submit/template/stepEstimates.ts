/** What the steps of a workflow would cost together, from an estimate of each: asked for in turn, and added up. */

import type { EstimatedWorkers, JobEstimate, RenderedScript } from "../../api/schema";
import { asProblem } from "../../api/problem";

/** The most steps that are estimated: each is a plan of the scaler. Of the others it is said that they are not known. */
export const MOST_STEPS = 12;
const AT_ONCE = 2;

export type StepEstimate = JobEstimate | Error;

export interface StepsEstimate {
  /** How many steps there are. */
  count: number;
  /** Of how many of them the cost is not known. */
  unknown: number;
  /** Whether the answers are still to come. */
  pending: boolean;
  /** The maximum costs of the others together, in USD; null where one of them has no time limit. */
  atMost: number | null;
  workers: readonly EstimatedWorkers[];
  /** Of the steps that wait for no other one, the one that starts first. */
  first: JobEstimate | null;
  /** The time of the oldest estimate. */
  asOf: string | null;
  /** Why a step has none, for the first such step. */
  problem: { step: string; detail: string } | null;
}

/** Asks for each, a few at a time; an error is the answer for that one alone. After an abort no more are asked for. */
export async function askedInTurn<Wanted>(
  wanted: readonly Wanted[],
  ask: (one: Wanted) => Promise<JobEstimate>,
  signal: AbortSignal,
): Promise<StepEstimate[]> {
  const found: StepEstimate[] = [];
  const queue = wanted.entries();
  async function work(): Promise<void> {
    for (const [at, one] of queue) {
      if (signal.aborted) return;
      found[at] = await ask(one).catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return found;
}

type Step = Pick<RenderedScript, "step_id" | "depends_on">;

/** Of all steps, from the answers for the first ones; undefined while there are none. */
export function together(steps: readonly Step[], answers: readonly StepEstimate[] | undefined): StepsEstimate {
  const told = steps.map((step, at) => {
    const answer = answers?.[at];
    return { step, at, estimate: answer === undefined || answer instanceof Error ? null : answer, error: answer instanceof Error ? answer : null };
  });
  const estimates = told.flatMap(({ estimate }) => (estimate === null ? [] : [estimate]));
  const costs = estimates.flatMap(({ cost }) => (cost === null ? [] : [cost.total_at_most ?? cost.at_most]));
  const firsts = told.flatMap(({ step, at, estimate }) => (estimate !== null && isFirst(step, at) ? [estimate] : []));
  const failed = told.find(({ error }) => error !== null);
  return {
    count: steps.length,
    unknown: steps.length - costs.length,
    pending: answers === undefined,
    atMost: costs.reduce<number | null>((sum, cost) => (sum === null || cost === null ? null : sum + Number(cost)), 0),
    workers: estimates.flatMap(({ workers }) => workers),
    first: firsts.toSorted((one, other) => startOf(one) - startOf(other))[0] ?? null,
    asOf: estimates.map(({ as_of }) => as_of).toSorted()[0] ?? null,
    problem: failed === undefined ? null : { step: failed.step.step_id ?? "", detail: asProblem(failed.error).detail },
  };
}

/** Without a list of others a step waits for the one before it. */
function isFirst({ depends_on }: Step, at: number): boolean {
  return depends_on === null ? at === 0 : depends_on.length === 0;
}

function startOf({ wait, expected_start, as_of }: JobEstimate): number {
  if (wait === "nothing") return Date.parse(as_of);
  return expected_start === null ? Number.MAX_VALUE : Date.parse(expected_start);
}
