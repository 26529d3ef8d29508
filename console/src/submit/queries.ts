/** What the pages of submits read, and the submit itself. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import type { ScriptSubmission, Submission, SubmittedJob } from "../api/schema";
import { ProblemError } from "../api/problem";

const KEPT_MS = 60_000;

/** The estimate of a job. A script that is changed ends the request for the one before. */
export function estimateQuery(cluster: string, submission: ScriptSubmission | null) {
  return queryOptions({
    queryKey: ["estimate", cluster, submission],
    queryFn: ({ signal }) =>
      body(
        api.POST("/v1/clusters/{cluster_id}/jobs/estimate", {
          params: { path: { cluster_id: cluster } },
          body: submission as ScriptSubmission,
          signal,
        }),
      ),
    enabled: submission !== null,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: KEPT_MS,
  });
}

export const quotasQuery = queryOptions({
  queryKey: ["quotas"],
  queryFn: ({ signal }) => body(api.GET("/v1/quotas", { signal })),
});

/** A folder of the bucket; the areas without a path. */
export function folderQuery(cluster: string, path: string, cursor: string | null) {
  return queryOptions({
    queryKey: ["files", cluster, "pick", path, cursor],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/files", {
          params: {
            path: { cluster_id: cluster },
            query: { limit: 200, ...(path === "" ? {} : { path }), ...(cursor === null ? {} : { cursor }) },
          },
          signal,
        }),
      ),
  });
}

export async function submitJob(cluster: string, submission: Submission, key: string): Promise<SubmittedJob> {
  const answer = await body(
    api.POST("/v1/clusters/{cluster_id}/jobs/submit", {
      params: { path: { cluster_id: cluster }, header: { "Idempotency-Key": key } },
      body: submission,
    }),
  );
  return answer as SubmittedJob;
}

const PRICE = /([0-9]+(?:\.[0-9]+)?) USD per hour/;

/** The price per hour that has to be confirmed; null for another error. */
export function priceToConfirm(error: unknown): number | null {
  if (!(error instanceof ProblemError) || !error.problem.type.endsWith("/confirmation-required")) return null;
  const price = PRICE.exec(error.problem.detail)?.[1];
  return price === undefined ? null : Number(price);
}
