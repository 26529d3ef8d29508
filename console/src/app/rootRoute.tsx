/** The root of all pages, and the part that has a cluster: below it are the pages of people who are signed in. */

import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, redirect } from "@tanstack/react-router";
import { clustersQuery, profileQuery } from "../api/queries";
import { ProblemError } from "../api/problem";
import { Failure } from "./Failure";
import { NoPage } from "./NoPage";
import { Shell } from "./shell/Shell";

export interface RouterContext {
  queries: QueryClient;
}

export const rootRoute = createRootRouteWithContext<RouterContext>()({
  notFoundComponent: () => (
    <main>
      <NoPage />
    </main>
  ),
  errorComponent: Failure,
});

/** The cluster of a page whose tenant has none. */
export const NO_CLUSTER = "-";

/** Sends whoever is not signed in to the sign-in, and afterwards back to this address. */
async function signedIn({ queries }: RouterContext, address: string): Promise<void> {
  try {
    await queries.ensureQueryData(profileQuery);
  } catch (error) {
    if (error instanceof ProblemError && error.status === 401) {
      throw redirect({ to: "/sign-in", search: { return_to: address } });
    }
    throw error;
  }
}

export const indexRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  beforeLoad: async ({ context, location }) => {
    await signedIn(context, location.href);
    const { clusters } = await context.queries.ensureQueryData(clustersQuery);
    throw redirect({ to: "/c/$cluster", params: { cluster: clusters[0]?.id ?? NO_CLUSTER } });
  },
});

export const clusterRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/c/$cluster",
  beforeLoad: ({ context, location }) => signedIn(context, location.href),
  component: Shell,
  notFoundComponent: NoPage,
});
