/** Reads of runs, and reads and changes of schedules. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body, done, positioned, type Positioned } from "../api/client";
import { ProblemError } from "../api/problem";
import type { Cost, Job, JobWithCost, NewSchedule, RunList, RunView, ScheduleChange, ScheduleList, ScheduleView } from "../api/schema";
import { tasksOfRecord } from "../jobs/arrayTasks";
import { attemptsOf, costOf, type RunCost } from "./runCost";
import { jobsOf, missingJobs } from "./runs";

const PAGE = 50;
const MOST_JOBS = 1_000;
const MOST_SINGLE = 100;
const AT_ONCE = 5;

/** The runs of a cluster, the newest first: one's own, for admins all. */
export function runsQuery(cluster: string) {
  return infiniteQueryOptions({
    queryKey: ["runs", cluster],
    queryFn: async ({ pageParam, signal }): Promise<RunList & Positioned> => {
      const params = { path: { cluster_id: cluster }, query: { limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } };
      const { data, ...at } = await positioned(api.GET("/v1/clusters/{cluster_id}/runs", { params, signal }));
      return { ...data, ...at };
    },
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
      const page = await pageOfRun(cluster, run, false, signal);
      const wanted = jobsOf(run);
      const found = new Map(page.jobs.filter(({ job_id }) => wanted.has(job_id)).map((job) => [job.job_id, job]));
      for (const job of await singleJobs(cluster, missingJobs(wanted, found), signal)) found.set(job.job_id, job);
      return found;
    },
    enabled: run !== undefined,
  });
}

/** What the jobs of a run cost, those of earlier attempts too. */
export function runCostQuery(cluster: string, run: RunView | undefined) {
  return queryOptions({
    queryKey: ["run-cost", cluster, run?.run_id],
    queryFn: async ({ signal }): Promise<RunCost | null> => {
      if (run === undefined) return null;
      const page = await pageOfRun(cluster, run, true, signal);
      const wanted = attemptsOf(run);
      // In a list the record of an array is that of its waiting tasks alone, which cost nothing.
      const listed = page.jobs.filter((job) => wanted.has(job.job_id) && tasksOfRecord(job) === "");
      const costs = new Map<string, Cost | null>(listed.map(({ job_id }) => [job_id, page.costs?.[job_id] ?? null]));
      for (const job of await singleJobs(cluster, missingJobs(wanted, costs), signal)) costs.set(job.job_id, job.cost ?? null);
      return costOf(wanted, costs);
    },
    enabled: run !== undefined,
  });
}

/** The jobs that the person of a run submitted from its start on. */
function pageOfRun(cluster: string, run: RunView, costs: boolean, signal: AbortSignal) {
  // Slurm counts whole seconds.
  const since = new Date(Date.parse(run.created_at) - 1_000).toISOString();
  const query = { user: run.user, submitted_after: since, sort: "submitted", limit: MOST_JOBS, costs } as const;
  return body(api.GET("/v1/clusters/{cluster_id}/jobs", { params: { path: { cluster_id: cluster }, query }, signal }));
}

/** The first of these jobs, read one by one; without those that are not there any more. */
async function singleJobs(cluster: string, ids: readonly string[], signal: AbortSignal): Promise<JobWithCost[]> {
  const wanted = ids.slice(0, MOST_SINGLE);
  const found: JobWithCost[] = [];
  while (wanted.length > 0) {
    const some = await Promise.all(wanted.splice(0, AT_ONCE).map((id) => singleJob(cluster, id, signal)));
    found.push(...some.filter((job) => job !== null));
  }
  return found;
}

async function singleJob(cluster: string, id: string, signal: AbortSignal): Promise<JobWithCost | null> {
  try {
    return await body(api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}", { params: { path: { cluster_id: cluster, job_id: id } }, signal }));
  } catch (error) {
    if (error instanceof ProblemError && error.status === 404) return null;
    throw error;
  }
}

/** The schedules of all clusters: one's own, for admins all. */
export const schedulesQuery = queryOptions({
  queryKey: ["schedules"],
  queryFn: async ({ signal }): Promise<ScheduleList & Positioned> => {
    const { data, ...at } = await positioned(api.GET("/v1/schedules", { signal }));
    return { ...data, ...at };
  },
});

export function createSchedule(wanted: NewSchedule) {
  return body(api.POST("/v1/schedules", { body: wanted }));
}

export function changeSchedule(id: string, changes: ScheduleChange): Promise<ScheduleView> {
  return body(api.PATCH("/v1/schedules/{schedule_id}", { params: { path: { schedule_id: id } }, body: changes }));
}

/** Submits the template once now; with one key, once. */
export function runSchedule(id: string, key: string): Promise<ScheduleView> {
  return body(
    api.POST("/v1/schedules/{schedule_id}/run", {
      params: { path: { schedule_id: id }, header: { "Idempotency-Key": key } },
    }),
  );
}

export function deleteSchedule(id: string): Promise<void> {
  return done(api.DELETE("/v1/schedules/{schedule_id}", { params: { path: { schedule_id: id } } }));
}
