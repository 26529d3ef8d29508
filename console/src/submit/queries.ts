/** What the pages of submits read, and the submit itself: of a script, or of a template with its values. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import type { Launched, ScriptSubmission, Submission, SubmittedJob } from "../api/schema";
import { ProblemError } from "../api/problem";
import type { FormRequest } from "../parameters/values";
import { askedInTurn } from "./template/stepEstimates";

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

/** The estimates of several jobs, each as one that is estimated alone; an error in place of one that has none. */
export function stepEstimatesQuery(cluster: string, submissions: readonly ScriptSubmission[] | null) {
  return queryOptions({
    queryKey: ["step-estimates", cluster, submissions],
    queryFn: ({ client, signal }) => askedInTurn(submissions ?? [], (each) => client.fetchQuery(estimateQuery(cluster, each)), signal),
    enabled: submissions !== null,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: KEPT_MS,
    structuralSharing: false,
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

/** The script that values would make. */
export function renderQuery(id: string, version: number | null, request: FormRequest | null) {
  return queryOptions({
    queryKey: ["render", id, version, request],
    queryFn: ({ signal }) =>
      body(
        api.POST("/v1/launchables/{launchable_id}/render", {
          params: { path: { launchable_id: id }, query: version === null ? {} : { version } },
          body: { ...(request as FormRequest) },
          signal,
        }),
      ),
    enabled: request !== null,
    gcTime: KEPT_MS,
  });
}

interface Launch {
  id: string;
  cluster: string;
  request: FormRequest;
  confirmed: number | null;
  key: string;
}

export function launch({ id, cluster, request, confirmed, key }: Launch): Promise<Launched> {
  return body(
    api.POST("/v1/launchables/{launchable_id}/submit", {
      params: { path: { launchable_id: id }, header: { "Idempotency-Key": key } },
      body: { ...request, cluster_id: cluster, ...(confirmed === null ? {} : { confirmed_usd_per_hour: confirmed }) },
    }),
  );
}

const PRICE = /([0-9]+(?:\.[0-9]+)?) USD per hour/;

/** The price per hour that has to be confirmed; null for another error. */
export function priceToConfirm(error: unknown): number | null {
  if (!(error instanceof ProblemError) || !error.problem.type.endsWith("/confirmation-required")) return null;
  const price = PRICE.exec(error.problem.detail)?.[1];
  return price === undefined ? null : Number(price);
}
