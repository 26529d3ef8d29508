/** Jobs that the gateway finds: those with the typed text in their name, and those of which it is the number. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../../api/client";

const MOST = 10;
/** The gateway searches for no longer text. */
const MOST_CHARACTERS = 100;

export function jobSearchQuery(cluster: string, typed: string) {
  const search = typed.replace(/^#/, "").slice(0, MOST_CHARACTERS);
  return queryOptions({
    queryKey: ["job search", cluster, search],
    queryFn: async ({ signal }) => {
      if (search === "") return [];
      const params = { path: { cluster_id: cluster }, query: { search, limit: MOST } };
      return (await body(api.GET("/v1/clusters/{cluster_id}/jobs", { params, signal }))).jobs;
    },
    gcTime: 10_000,
  });
}
