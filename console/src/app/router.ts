/** All pages: each room names its own. */

import type { QueryClient } from "@tanstack/react-query";
import { createRouter } from "@tanstack/react-router";
import { activityRoutes } from "../activity/routes";
import { filesRoutes } from "../files/routes";
import { fleetRoutes } from "../fleet/routes";
import { homeRoutes } from "../home/routes";
import { jobsRoutes } from "../jobs/routes";
import { moneyRoutes } from "../money/routes";
import { peopleRoutes } from "../people/routes";
import { sessionsRoutes } from "../sessions/routes";
import { sharedLinksRoutes } from "../shared_links/routes";
import { submitRoutes } from "../submit/routes";
import { templatesRoutes } from "../templates/routes";
import { workflowsRoutes } from "../workflows/routes";
import { signInRoutes } from "../sign_in/routes";
import { clusterRoute, indexRoute, rootRoute } from "./rootRoute";

const tree = rootRoute.addChildren([
  indexRoute,
  ...sharedLinksRoutes,
  ...signInRoutes,
  clusterRoute.addChildren([
    ...activityRoutes,
    ...filesRoutes,
    ...fleetRoutes,
    ...homeRoutes,
    ...jobsRoutes,
    ...moneyRoutes,
    ...peopleRoutes,
    ...sessionsRoutes,
    ...submitRoutes,
    ...templatesRoutes,
    ...workflowsRoutes,
  ]),
]);

export function router(queries: QueryClient) {
  let another = false;
  // The pages scroll within the frame. Another one begins at its top; what changes the search of an address moves nothing.
  const contentOfAnother = () => (another ? document.getElementById("content") : null);
  const made = createRouter({
    routeTree: tree,
    context: { queries },
    defaultPreload: "intent",
    scrollRestoration: true,
    scrollToTopSelectors: [contentOfAnother],
  });
  made.subscribe("onBeforeLoad", ({ pathChanged }) => {
    another = pathChanged;
  });
  return made;
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof router>;
  }
  interface StaticDataRouteOption {
    /** The page is about the tenant or the person, and shown whatever the cluster. */
    needsNoCluster?: boolean;
  }
}
