/**
 * The jobs that were read, kept right by the stream of events. A list is read once; what happens afterwards is patched
 * into it, and a job that events do not tell enough of is read by itself.
 */

import { queryOptions, type QueryClient } from "@tanstack/react-query";
import * as v from "valibot";
import { api, body, positioned } from "../api/client";
import type { Job } from "../api/schema";
import type { LiveEvent } from "../live/event";

export interface JobList {
  /** By their ids, the newest first. */
  jobs: ReadonlyMap<string, Job>;
  /** How many jobs there are on the cluster that the caller sees; more than are read where a list is longer than the bound. */
  total: number;
  /** The position in the stream of events that the list is complete to. */
  position: number;
}

/** The most jobs that a page keeps. */
export const MOST_JOBS = 20_000;
const PAGE = 1_000;

/** The jobs of a cluster that the caller sees. */
export function jobsQuery(cluster: string) {
  return queryOptions({
    queryKey: ["jobs", cluster],
    queryFn: ({ signal }) => readJobs(cluster, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

async function readJobs(cluster: string, signal: AbortSignal): Promise<JobList> {
  const jobs = new Map<string, Job>();
  let total = 0;
  let position: number | null = null;
  let cursor: string | null | undefined;
  do {
    const page = await positioned(
      api.GET("/v1/clusters/{cluster_id}/jobs", {
        params: { path: { cluster_id: cluster }, query: { limit: PAGE, ...(cursor ? { cursor } : {}) } },
        signal,
      }),
    );
    for (const job of page.data.jobs) if (!jobs.has(job.job_id)) jobs.set(job.job_id, job);
    total = page.data.total;
    position ??= page.position;
    cursor = page.data.cursor;
  } while (cursor && jobs.size < MOST_JOBS);
  return { jobs, total, position: position ?? 0 };
}

/** One job, with its cost. */
export function jobQuery(cluster: string, jobId: string) {
  return queryOptions({
    queryKey: ["job", cluster, jobId],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}", {
          params: { path: { cluster_id: cluster, job_id: jobId } },
          signal,
        }),
      ),
  });
}

/** What an event says of a job (the contract `JobFact`). */
const JobFact = v.object({
  kind: v.pipe(v.string(), v.startsWith("job.")),
  job_id: v.string(),
  name: v.string(),
  user: v.string(),
  uid: v.number(),
  partition: v.string(),
  state: v.string(),
  reason: v.optional(v.string(), ""),
  exit_code: v.nullish(v.number()),
  nodes: v.optional(v.array(v.string()), []),
  submitted_at: v.string(),
  started_at: v.nullish(v.string()),
  ended_at: v.nullish(v.string()),
  restarts: v.nullish(v.number()),
  account: v.optional(v.string(), ""),
  cpus: v.nullish(v.number()),
  time_limit_seconds: v.nullish(v.number()),
});

type Fact = v.InferOutput<typeof JobFact>;

/** A list after events. Events that the list has already are left out. The same list where nothing changed. */
export function patched(list: JobList, events: readonly LiveEvent[]): JobList {
  const newer = events.filter(({ position }) => position > list.position);
  const last = newer.at(-1);
  if (last === undefined) return list;
  const changed = new Map<string, Job>();
  for (const event of newer) {
    const fact = v.safeParse(JobFact, event.data);
    if (!fact.success) continue;
    const known = changed.get(fact.output.job_id) ?? list.jobs.get(fact.output.job_id);
    changed.set(fact.output.job_id, known === undefined ? jobOf(fact.output) : { ...known, ...changes(fact.output) });
  }
  if (changed.size === 0) return { ...list, position: last.position };
  const added = [...changed].filter(([id]) => !list.jobs.has(id)).toReversed();
  const kept = [...list.jobs].map(([id, job]) => [id, changed.get(id) ?? job] as const);
  return {
    jobs: new Map([...added, ...kept].slice(0, MOST_JOBS)),
    total: list.total + added.length,
    position: last.position,
  };
}

function changes(fact: Fact): Partial<Job> {
  return {
    state: fact.state,
    reason: fact.reason,
    nodes: fact.nodes,
    exit_code: fact.exit_code ?? null,
    started_at: fact.started_at ?? null,
    ended_at: fact.ended_at ?? null,
    ...(fact.restarts === null || fact.restarts === undefined ? {} : { restarts: fact.restarts }),
    ...(fact.cpus === null || fact.cpus === undefined ? {} : { cpus: fact.cpus }),
    ...(fact.nodes.length > 0 ? { node_count: fact.nodes.length } : {}),
  };
}

/** What an event tells of a job that no list has yet. The rest comes when the job is read. */
function jobOf(fact: Fact): Job {
  return {
    job_id: fact.job_id,
    name: fact.name,
    user: fact.user,
    uid: fact.uid,
    partition: fact.partition,
    submitted_at: fact.submitted_at,
    account: fact.account,
    time_limit_seconds: fact.time_limit_seconds ?? null,
    state: fact.state,
    ...changes(fact),
  } as Job;
}

/** Patches the list of a cluster in the cache. */
export function applyEvents(queries: QueryClient, cluster: string, events: readonly LiveEvent[]): void {
  queries.setQueryData(jobsQuery(cluster).queryKey, (list) => (list === undefined ? list : patched(list, events)));
}
