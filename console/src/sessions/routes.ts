import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";

const sessionsRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/sessions",
  component: lazyRouteComponent(() => import("./SessionsPage"), "SessionsPage"),
});

export const sessionsRoutes = [sessionsRoute];
