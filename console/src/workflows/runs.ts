/** Reads of runs, and what their states are in the words that jobs have. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import { ProblemError } from "../api/problem";
import type { Job, RunView, StepView } from "../api/schema";
import { hasEnded } from "../ui/jobStates";

const PAGE = 50;
const MOST_JOBS = 1_000;
const MOST_SINGLE = 100;
const AT_ONCE = 5;

/** The runs of a cluster, the newest first: one's own, for admins all. */
export function runsQuery(cluster: string) {
  return infiniteQueryOptions({
    queryKey: ["runs", cluster],
    queryFn: ({ pageParam, signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/runs", {
          params: { path: { cluster_id: cluster }, query: { limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.cursor,
  });
}

export function runQuery(cluster: string, run: string) {
  return queryOptions({
    queryKey: ["run", cluster, run],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/runs/{run_id}", {
          params: { path: { cluster_id: cluster, run_id: run } },
          signal,
        }),
      ),
  });
}

/**
 * The jobs of a run's steps by their ids: those that its person submitted from its start on, in one read, and the jobs
 * of later steps one by one where there were too many.
 */
export function runJobsQuery(cluster: string, run: RunView | undefined) {
  return queryOptions({
    queryKey: ["run-jobs", cluster, run?.run_id],
    queryFn: async ({ signal }): Promise<ReadonlyMap<string, Job>> => {
      if (run === undefined) return new Map();
      // Slurm counts whole seconds.
      const since = new Date(Date.parse(run.created_at) - 1_000).toISOString();
      const page = await body(
        api.GET("/v1/clusters/{cluster_id}/jobs", {
          params: {
            path: { cluster_id: cluster },
            query: { user: run.user, submitted_after: since, sort: "submitted", limit: MOST_JOBS },
          },
          signal,
        }),
      );
      const wanted = jobsOf(run);
      const found = new Map(page.jobs.filter(({ job_id }) => wanted.has(job_id)).map((job) => [job.job_id, job]));
      const missing = missingJobs(run, found, MOST_SINGLE);
      while (missing.length > 0) {
        const some = await Promise.all(missing.splice(0, AT_ONCE).map((id) => singleJob(cluster, id, signal)));
        for (const job of some) if (job !== null) found.set(job.job_id, job);
      }
      return found;
    },
    enabled: run !== undefined,
  });
}

/** The jobs of steps that are missing, those of the last steps first. */
export function missingJobs(run: RunView, found: { has: (id: string) => boolean }, most: number): string[] {
  return [...jobsOf(run)].toReversed().filter((id) => !found.has(id)).slice(0, most);
}

/** Null for a job that is not there any more: its step is shown without it. */
async function singleJob(cluster: string, id: string, signal: AbortSignal): Promise<Job | null> {
  try {
    return await body(api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}", { params: { path: { cluster_id: cluster, job_id: id } }, signal }));
  } catch (error) {
    if (error instanceof ProblemError && error.status === 404) return null;
    throw error;
  }
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
