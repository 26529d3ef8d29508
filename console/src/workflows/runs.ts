/** Runs: their jobs, whether they are over, and what their states are in the words that jobs have. */

import type { RunView, StepView } from "../api/schema";
import { hasEnded } from "../ui/jobStates";

/** The jobs of a run that are missing, those of the last steps first. */
export function missingJobs(wanted: ReadonlySet<string>, found: { has: (id: string) => boolean }): string[] {
  return [...wanted].toReversed().filter((id) => !found.has(id));
}

export function jobsOf(run: RunView): Set<string> {
  return new Set(run.steps.map((step) => step.job_id).filter((id) => id !== null));
}

/** Whether an event about this job may change one of the runs: it is one of theirs, or a step has no job yet. */
export function concerns(runs: readonly RunView[], jobId: unknown): boolean {
  return runs.some((run) => run.steps.some((step) => step.job_id === jobId || (step.job_id === null && !isOver(run))));
}

/** Whether nothing of a run goes on any more. */
export function isOver(run: RunView): boolean {
  return !["submitting", "active", "cancelling"].includes(run.state);
}

/** Whether a run can be resumed: it is over, and not all of it has completed. */
export function isResumable(run: RunView): boolean {
  return run.state === "failed" || run.state === "cancelled";
}

/** How many jobs of a run have not ended. */
export function running(run: RunView): number {
  return run.steps.filter((step) => step.job_id !== null && step.state === "submitted" && !hasEnded(step.job_state)).length;
}

const RUN_STATES: Record<RunView["state"], string> = {
  submitting: "PENDING",
  active: "RUNNING",
  cancelling: "RUNNING",
  completed: "COMPLETED",
  failed: "FAILED",
  cancelled: "CANCELLED",
};

/** The state of jobs that a run's state looks like. */
export function likeJob(run: RunView): string {
  return RUN_STATES[run.state];
}

const STEP_STATES: Partial<Record<StepView["state"], string>> = {
  waiting: "PENDING",
  submitting: "PENDING",
  completed: "COMPLETED",
  failed: "FAILED",
  rejected: "FAILED",
  not_submitted: "FAILED",
  unknown: "FAILED",
  cancelled: "CANCELLED",
};

/** The state of jobs that a step's state looks like: that of its job while it has one that goes on. */
export function stepLikeJob(step: StepView): string {
  return STEP_STATES[step.state] ?? (step.job_state || "PENDING");
}
