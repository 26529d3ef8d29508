/** Reads and changes of interactive sessions: the caller's own that have not ended, and those that ended while they were looked at. */

import { queryOptions } from "@tanstack/react-query";
import { api, body, done, positioned, type Positioned } from "../api/client";
import { ProblemError } from "../api/problem";
import type { Job, NewSession, SessionDetail } from "../api/schema";
import { stateGroup } from "../ui/jobStates";

export interface Sessions extends Positioned {
  sessions: readonly SessionDetail[];
}

export function sessionsQuery(cluster: string) {
  const queryKey = ["sessions", cluster];
  return queryOptions({
    queryKey,
    queryFn: async ({ signal, client }): Promise<Sessions> => {
      const { data, ...at } = await positioned(
        api.GET("/v1/clusters/{cluster_id}/sessions", { params: { path: { cluster_id: cluster } }, signal }),
      );
      const before = client.getQueryData<Sessions>(queryKey)?.sessions ?? [];
      return { sessions: [...data.sessions, ...(await endedSince(cluster, before, data.sessions, signal))], ...at };
    },
  });
}

/** One session; null for a job that is none of the caller's sessions. */
export async function readSession(cluster: string, jobId: string, signal: AbortSignal): Promise<SessionDetail | null> {
  const path = { cluster_id: cluster, job_id: jobId };
  return body(api.GET("/v1/clusters/{cluster_id}/sessions/{job_id}", { params: { path }, signal })).catch((error: unknown) => {
    if (error instanceof ProblemError && error.status === 404) return null;
    throw error;
  });
}

/** The most sessions that have ended and stay in the list. */
const MOST_ENDED = 10;

/** Sessions that were in the list and are no longer: they stay in it, with how they ended. */
async function endedSince(
  cluster: string,
  before: readonly SessionDetail[],
  now: readonly SessionDetail[],
  signal: AbortSignal,
): Promise<SessionDetail[]> {
  const there = new Set(now.map(({ job_id }) => job_id));
  const gone = before.filter(({ job_id }) => !there.has(job_id)).slice(0, MOST_ENDED);
  const read = async (session: SessionDetail) => (session.state === "ended" ? session : readSession(cluster, session.job_id, signal));
  return (await Promise.all(gone.map(read))).filter((session) => session !== null);
}

/** Starts a session. The key makes it safe to send again. */
export function startSession(cluster: string, wanted: NewSession, key: string) {
  return body(
    api.POST("/v1/clusters/{cluster_id}/sessions", {
      params: { path: { cluster_id: cluster }, header: { "Idempotency-Key": key } },
      body: wanted,
    }),
  );
}

export function stopSession(cluster: string, jobId: string): Promise<void> {
  return done(
    api.DELETE("/v1/clusters/{cluster_id}/sessions/{job_id}", { params: { path: { cluster_id: cluster, job_id: jobId } } }),
  );
}

/** The gateway's page that opens a session in this browser. It asks for the ticket, so that no address has one. */
export function openAddress(cluster: string, jobId: string): string {
  return `/v1/clusters/${encodeURIComponent(cluster)}/sessions/${encodeURIComponent(jobId)}/open`;
}

const STATES: Record<SessionDetail["state"], string> = {
  pending: "PENDING",
  starting: "CONFIGURING",
  ready: "RUNNING",
  ended: "CANCELLED",
};

/** The state of jobs that a session's state looks like. */
export function likeJob(state: SessionDetail["state"]): string {
  return STATES[state];
}

/** The state of the job with which a session has failed; null of one that has not, or of whose job nothing is known. */
export function failedAs(state: SessionDetail["state"], job: string | undefined): string | null {
  return state === "ended" && job !== undefined && stateGroup(job) === "failed" ? job : null;
}

/** Seconds until the job's time is over; null where it has no limit or has not started. */
export function secondsLeft(job: Pick<Job, "started_at" | "time_limit_seconds">, now: number): number | null {
  if (!job.started_at || job.time_limit_seconds === null || job.time_limit_seconds === undefined) return null;
  return Math.max(0, job.time_limit_seconds - (now - Date.parse(job.started_at)) / 1000);
}
