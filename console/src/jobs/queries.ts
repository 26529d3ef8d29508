/** What is read of jobs. The list is filled page by page (`list/useJobs.ts`); a page of one job reads the rest. */

import { queryOptions, type QueryClient } from "@tanstack/react-query";
import { api, body, positioned } from "../api/client";
import type { Job, JobWithCost, operations } from "../api/schema";
import { isArray, listedTasks, MOST_TASKS, recordsOf } from "./arrayRecords";
import { summaryOf, summaryOfStates } from "./arraySummary";
import type { CountsFilter } from "./filters/filters";
import { NO_COSTS, withNewer, withNext, type ListCosts } from "./list/costs";
import { isBefore, keepEventFields } from "./list/fact";
import { listOf, type JobList } from "./list/list";

const FIRST_PAGE = 200;
const COSTS_PAGE = 1_000;
const LIVE = ["PENDING", "RUNNING", "SUSPENDED"] as const;
const EVENTS = 500;

/** The jobs of a cluster that the caller sees: the first page, to which the others are added. */
export function jobsQuery(cluster: string) {
  const queryKey = ["jobs", cluster];
  return queryOptions({
    queryKey,
    queryFn: async ({ client, signal }): Promise<JobList> => {
      const page = await jobsPage(cluster, { limit: FIRST_PAGE }, signal);
      return listOf(page.data, page.position ?? 0, client.getQueryData<JobList>(queryKey));
    },
    staleTime: Number.POSITIVE_INFINITY,
    structuralSharing: false,
  });
}

/** With `submitted_after` or `submitted_before` a page also has jobs that Slurm has forgotten, from accounting. */
type PageQuery = NonNullable<operations["jobs_list"]["parameters"]["query"]>;

/** One page of the list, the newest first, with the position in the stream of events that it is complete to. */
export function jobsPage(cluster: string, query: PageQuery, signal: AbortSignal) {
  return positioned(
    api.GET("/v1/clusters/{cluster_id}/jobs", { params: { path: { cluster_id: cluster }, query }, signal }),
  );
}

/** What the jobs of the list cost. Read again, it reads the newest jobs, and keeps the costs of the others. */
export function listCostsQuery(cluster: string, since: string) {
  const queryKey = ["job-costs", cluster, since];
  return queryOptions({
    queryKey,
    queryFn: async ({ client, signal }): Promise<ListCosts> => {
      if (client.getQueryData<ListCosts>(queryKey) === undefined) return withNext(NO_COSTS, await costsPage(cluster, since, NO_COSTS, signal));
      const { data } = await jobsPage(cluster, { limit: COSTS_PAGE, costs: true }, signal);
      // A page of older jobs may have come meanwhile.
      return withNewer(client.getQueryData<ListCosts>(queryKey) ?? NO_COSTS, data);
    },
    gcTime: 10_000,
    structuralSharing: false,
  });
}

/** Adds the next page to the costs in the cache. */
export async function nextCosts(queries: QueryClient, cluster: string, since: string): Promise<void> {
  const { queryKey } = listCostsQuery(cluster, since);
  const before = queries.getQueryData(queryKey);
  if (before === undefined || before.next === null) return;
  const page = await costsPage(cluster, since, before, AbortSignal.timeout(60_000));
  queries.setQueryData(queryKey, (now) => (now?.next === before.next ? withNext(now, page) : now));
}

/** Reads the costs of these jobs. Where that fails, a cost stays as of before, and its title says so. */
export async function readCosts(queries: QueryClient, cluster: string, since: string, jobs: readonly string[]): Promise<void> {
  const found = await Promise.all(jobs.map((job) => readJob(cluster, job, AbortSignal.timeout(60_000)).catch(() => null)));
  const costs = Object.fromEntries(found.flatMap((job) => (job?.cost ? [[job.job_id, job.cost]] : [])));
  queries.setQueryData(listCostsQuery(cluster, since).queryKey, (now) => now && withNewer(now, { jobs: [], costs }));
}

async function costsPage(cluster: string, since: string, { next }: ListCosts, signal: AbortSignal) {
  // Older jobs are in the list only if they have not ended. Their states keep the gateway from reading all of accounting.
  const from = next?.part === "before" ? { submitted_before: since, state: [...LIVE] } : { submitted_after: since };
  const cursor = next?.cursor ?? null;
  const page = await jobsPage(cluster, { limit: COSTS_PAGE, costs: true, ...from, ...(cursor === null ? {} : { cursor }) }, signal);
  return page.data;
}

/** How many jobs match, by state: of all that there are, whatever the list keeps. */
export function countsQuery(cluster: string, filter: CountsFilter) {
  return queryOptions({
    queryKey: ["jobs", cluster, "counts", filter],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/jobs/counts", {
          params: { path: { cluster_id: cluster }, query: filter },
          signal,
        }),
      ),
    gcTime: 10_000,
  });
}

/** One job, with its cost. What is known of it from events is kept where the gateway's answer is of before. */
export function jobQuery(cluster: string, jobId: string) {
  const queryKey = ["job", cluster, jobId];
  return queryOptions({
    queryKey,
    queryFn: async ({ client, signal }): Promise<JobWithCost> => {
      const read = await readJob(cluster, jobId, signal);
      const known = client.getQueryData<JobWithCost>(queryKey);
      return known === undefined || isArray(read) || !isBefore(read, known) ? read : keepEventFields(read, known);
    },
  });
}

/** Reads one job now, whatever the cache has or is about to have. */
export function readJob(cluster: string, jobId: string, signal: AbortSignal) {
  return body(
    api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}", {
      params: { path: { cluster_id: cluster, job_id: jobId } },
      signal,
    }),
  );
}

/** Why a job waits, where it runs, or how it ended. */
export function whyQuery(cluster: string, jobId: string) {
  return queryOptions({
    queryKey: ["job", cluster, jobId, "why"],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}/why", {
          params: { path: { cluster_id: cluster, job_id: jobId } },
          signal,
        }),
      ),
  });
}

/** What a job and its steps cost. */
export function jobCostsQuery(cluster: string, jobId: string) {
  return queryOptions({
    queryKey: ["job", cluster, jobId, "costs"],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}/costs", {
          params: { path: { cluster_id: cluster, job_id: jobId } },
          signal,
        }),
      ),
  });
}

/** What happened to a job: its newest events, the newest first. */
export function jobEventsQuery(cluster: string, jobId: string) {
  return queryOptions({
    queryKey: ["job", cluster, jobId, "events"],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/events", {
          params: { path: { cluster_id: cluster }, query: { subject: jobId, newest_first: true, limit: EVENTS } },
          signal,
        }),
      ),
  });
}

/** The stages of a job, with the decisions and the workers of each run. */
export function jobTimelineQuery(cluster: string, jobId: string) {
  return queryOptions({
    queryKey: ["job", cluster, jobId, "timeline"],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}/timeline", {
          params: { path: { cluster_id: cluster, job_id: jobId } },
          signal,
        }),
      ),
  });
}

/** The script of a job. It does not change, so it is read once. Its key is no job's: events do not read it again. */
export function scriptQuery(cluster: string, jobId: string) {
  return queryOptions({
    queryKey: ["script", cluster, jobId],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}/script", {
          params: { path: { cluster_id: cluster, job_id: jobId } },
          signal,
        }),
      ),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
}

/** The failed states of `stateGroup` that the API filters by. */
const FAILED = ["FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"] as const;

type KnownArray = Pick<Job, "job_id" | "submitted_at" | "name" | "user">;

/** Tasks of an array, the failed ones first: as many as its page lists, whether there may be more, and how many there are by state. */
export function arrayTasksQuery(cluster: string, array: KnownArray) {
  const all = { search: array.job_id, sort: "submitted", limit: MOST_TASKS } as const;
  const remembered = { ...all, ...withinItsSubmit(array) };
  return queryOptions({
    queryKey: ["job", cluster, array.job_id, "tasks"],
    queryFn: async ({ signal }) => {
      const queries: PageQuery[] = [{ ...remembered, state: [...FAILED] }, remembered, all];
      const pages = await Promise.all(queries.map((query) => jobsPage(cluster, query, signal)));
      const records = recordsOf(array.job_id, pages.flatMap(({ data }) => data.jobs));
      const more = pages.some(({ data }) => Boolean(data.cursor));
      const summary = more ? summaryOfStates(await arrayStates(cluster, array, signal), records) : summaryOf(records);
      return { tasks: listedTasks(records), more, summary };
    },
  });
}

/**
 * The tasks of an array have its submit time, but for those that were requeued, which slurmctld has for a while. A bound
 * on both sides keeps the gateway from reading the accounting of all that was submitted since.
 */
function withinItsSubmit({ submitted_at }: KnownArray) {
  return { submitted_after: submitted_at, submitted_before: new Date(Date.parse(submitted_at) + 1_000).toISOString() };
}

/** How many records an array has by state. Its id is also found in names: its own name and user leave the others out. */
async function arrayStates(cluster: string, array: KnownArray, signal: AbortSignal): Promise<Readonly<Record<string, number>>> {
  const query = { search: array.job_id, user: array.user, ...(array.name === "" ? {} : { name: array.name }), ...withinItsSubmit(array) };
  const counted = await body(api.GET("/v1/clusters/{cluster_id}/jobs/counts", { params: { path: { cluster_id: cluster }, query }, signal }));
  return counted.states;
}
