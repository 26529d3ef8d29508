/** Jobs of which the number or the whole name was typed. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../../api/client";
import { ProblemError } from "../../api/problem";
import type { Job } from "../../api/schema";

const MOST = 10;
const NUMBER = /^#?(\d{1,10}(?:_\d{1,7})?)$/;

export function jobSearchQuery(cluster: string, typed: string) {
  return queryOptions({
    queryKey: ["job search", cluster, typed],
    queryFn: async ({ signal }) => {
      const number = NUMBER.exec(typed)?.[1];
      const [byNumber, byName] = await Promise.all([
        number === undefined ? null : jobOrNull(cluster, number, signal),
        body(
          api.GET("/v1/clusters/{cluster_id}/jobs", {
            params: { path: { cluster_id: cluster }, query: { name: typed, limit: MOST } },
            signal,
          }),
        ),
      ]);
      return byNumber === null ? byName.jobs : [byNumber, ...byName.jobs];
    },
    gcTime: 10_000,
  });
}

async function jobOrNull(cluster: string, jobId: string, signal: AbortSignal): Promise<Job | null> {
  try {
    const params = { path: { cluster_id: cluster, job_id: jobId } };
    return await body(api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}", { params, signal }));
  } catch (error) {
    if (error instanceof ProblemError && [400, 404].includes(error.status)) return null;
    throw error;
  }
}
