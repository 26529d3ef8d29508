/** Jobs that the gateway finds: those with the typed text in their name, and that of which it is the number. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../../api/client";
import { ProblemError } from "../../api/problem";
import { readJob } from "../../jobs/queries";

const MOST = 10;
/** The gateway searches for no longer text. */
const MOST_CHARACTERS = 100;
const NUMBER = /^[0-9]{1,9}(_[0-9]{1,9})?$/;
const KEPT_MS = 10_000;

/**
 * The jobs that Slurm remembers, which are those that wait or run and, for some minutes, those that ended. With `since` it
 * is all jobs that were submitted from then on: those that Slurm has forgotten are in its accounting.
 */
export function jobSearchQuery(cluster: string, typed: string, since: string | null) {
  const search = searched(typed);
  return queryOptions({
    queryKey: ["job search", cluster, search, since],
    queryFn: async ({ signal }) => {
      if (search === "") return [];
      const query = { search, limit: MOST, ...(since === null ? {} : { submitted_after: since }) };
      const params = { path: { cluster_id: cluster }, query };
      return (await body(api.GET("/v1/clusters/{cluster_id}/jobs", { params, signal }))).jobs;
    },
    gcTime: KEPT_MS,
  });
}

/** The job of a typed number, however old it is; none for what is no number of a job. */
export function jobNumberQuery(cluster: string, typed: string) {
  const number = searched(typed);
  return queryOptions({
    queryKey: ["job search", cluster, number, "number"],
    queryFn: async ({ signal }) => {
      if (!NUMBER.test(number)) return [];
      try {
        return [await readJob(cluster, number, signal)];
      } catch (error) {
        if (error instanceof ProblemError && error.status === 404) return [];
        throw error;
      }
    },
    gcTime: KEPT_MS,
  });
}

function searched(typed: string): string {
  return typed.replace(/^#/, "").slice(0, MOST_CHARACTERS);
}
