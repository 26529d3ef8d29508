/** Changes of jobs. Each has a key, so that a request that is sent again makes one change. */

import { api, body, done } from "../api/client";
import type { CancelledJobs, JobFilter, RequestedChanges } from "../api/schema";

interface Target {
  cluster: string;
  job: string;
}

function path({ cluster, job }: Target) {
  return { cluster_id: cluster, job_id: job };
}

/** The header with the key of one change. */
function once(key: string) {
  return { "Idempotency-Key": key };
}

export function cancelJob(target: Target): Promise<void> {
  return done(api.DELETE("/v1/clusters/{cluster_id}/jobs/{job_id}", { params: { path: path(target) } }));
}

export function holdJob(target: Target, key: string): Promise<void> {
  return done(api.POST("/v1/clusters/{cluster_id}/jobs/{job_id}/hold", { params: { path: path(target), header: once(key) } }));
}

export function releaseJob(target: Target, key: string): Promise<void> {
  return done(api.POST("/v1/clusters/{cluster_id}/jobs/{job_id}/release", { params: { path: path(target), header: once(key) } }));
}

export function requeueJob(target: Target, key: string): Promise<void> {
  return done(
    api.POST("/v1/clusters/{cluster_id}/jobs/{job_id}/requeue", {
      params: { path: path(target), header: once(key) },
      body: {},
    }),
  );
}

export function editJob(target: Target, key: string, changes: RequestedChanges): Promise<void> {
  return done(
    api.PATCH("/v1/clusters/{cluster_id}/jobs/{job_id}", {
      params: { path: path(target), header: once(key) },
      body: changes,
    }),
  );
}

/** Cancels the jobs that a filter matches, or only names them. */
export function cancelMany(cluster: string, key: string, filter: JobFilter): Promise<CancelledJobs> {
  return body(
    api.POST("/v1/clusters/{cluster_id}/jobs/cancel", {
      params: { path: { cluster_id: cluster }, header: once(key) },
      body: filter,
    }),
  );
}
