/** The cache of what was read, and the reads that every page needs: who the caller is, and their clusters. */

import { MutationCache, QueryCache, QueryClient, queryOptions } from "@tanstack/react-query";
import { api, body } from "./client";
import { NO_ANSWER, ProblemError } from "./problem";

const RETRIES = 3;
const RETRYABLE = new Set([NO_ANSWER, 429, 502, 503, 504]);

function retryable(failures: number, error: Error): boolean {
  return failures < RETRIES && error instanceof ProblemError && RETRYABLE.has(error.status);
}

function retryDelay(failures: number, error: Error): number {
  const asked = error instanceof ProblemError ? error.retryAfterSeconds : null;
  return asked === null ? Math.min(1000 * 2 ** failures, 10_000) : asked * 1000;
}

/** Called when an answer says that nobody is signed in. */
type SignedOut = () => void;

export function queryClient(signedOut: SignedOut): QueryClient {
  const onError = (error: Error) => {
    if (error instanceof ProblemError && error.status === 401) signedOut();
  };
  return new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      queries: {
        retry: retryable,
        retryDelay,
        // Lists are kept right by the stream of events, and pages without one say how old they are.
        staleTime: 30_000,
        refetchOnWindowFocus: false,
        networkMode: "always",
      },
      mutations: { networkMode: "always", retry: false },
    },
  });
}

export const profileQuery = queryOptions({
  queryKey: ["profile"],
  queryFn: ({ signal }) => body(api.GET("/v1/users/me", { signal })),
});

export const clustersQuery = queryOptions({
  queryKey: ["clusters"],
  queryFn: ({ signal }) => body(api.GET("/v1/clusters", { signal })),
});

export function clusterQuery(cluster: string) {
  return queryOptions({
    queryKey: ["cluster", cluster],
    queryFn: ({ signal }) =>
      body(api.GET("/v1/clusters/{cluster_id}", { params: { path: { cluster_id: cluster } }, signal })),
  });
}
