/** The cache of what was read, and the reads that every page needs: who the caller is, and their clusters. */

import { MutationCache, QueryCache, QueryClient, queryOptions, type QueryKey } from "@tanstack/react-query";
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
        // Events patch what a page shows only while it is shown: a page that is opened again reads again. Reads that
        // say how old they are keep a time of their own.
        staleTime: 0,
        refetchOnWindowFocus: false,
        networkMode: "always",
      },
      mutations: { networkMode: "always", retry: false },
    },
  });
}

/** How long a read that says how old it is need not be read again when its page is opened. */
export const STALE_MS = 30_000;

interface Again {
  isFetching: boolean;
  refetch: (options: { cancelRefetch: boolean }) => Promise<unknown>;
}

/** Reads a query again without an end of the read under way, which may be older than what asks for this one. */
export async function refetchQuery({ isFetching, refetch }: Again): Promise<void> {
  if (isFetching) await refetch({ cancelRefetch: false });
  await refetch({ cancelRefetch: false });
}

/** The same for all queries that are shown under some keys; those that are not shown are read when they are. */
export async function refetchQueries(queries: QueryClient, ...keys: readonly QueryKey[]): Promise<void> {
  const one = async (queryKey: QueryKey) => {
    if (queries.isFetching({ queryKey }) > 0) await queries.invalidateQueries({ queryKey }, { cancelRefetch: false });
    await queries.invalidateQueries({ queryKey }, { cancelRefetch: false });
  };
  await Promise.all(keys.map(one));
}

export const profileQuery = queryOptions({
  queryKey: ["profile"],
  // Parts of all pages read it, and `useRights` has it read again when it changes.
  staleTime: STALE_MS,
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
