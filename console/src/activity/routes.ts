import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";

const activityRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/activity",
  component: lazyRouteComponent(() => import("./ActivityPage"), "ActivityPage"),
});

export const activityRoutes = [activityRoute];
