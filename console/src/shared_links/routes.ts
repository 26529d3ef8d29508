import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "../app/rootRoute";

/** The token of the link stands behind `#`, which browsers send to no server. It stays there, for a reload. */
const sharedRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/shared",
  component: lazyRouteComponent(() => import("./SharedPage"), "SharedPage"),
});

export const sharedLinksRoutes = [sharedRoute];
