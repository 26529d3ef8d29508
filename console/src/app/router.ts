/** All pages: each room names its own. */

import type { QueryClient } from "@tanstack/react-query";
import { createRouter } from "@tanstack/react-router";
import { homeRoutes } from "../home/routes";
import { jobsRoutes } from "../jobs/routes";
import { signInRoutes } from "../sign_in/routes";
import { clusterRoute, indexRoute, rootRoute } from "./rootRoute";

const tree = rootRoute.addChildren([
  indexRoute,
  ...signInRoutes,
  clusterRoute.addChildren([...homeRoutes, ...jobsRoutes]),
]);

export function router(queries: QueryClient) {
  return createRouter({ routeTree: tree, context: { queries }, defaultPreload: "intent", scrollRestoration: true });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof router>;
  }
}
