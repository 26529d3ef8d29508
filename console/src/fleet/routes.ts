import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";

const fleetRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/fleet",
  component: lazyRouteComponent(() => import("./FleetPage"), "FleetPage"),
});

export const fleetRoutes = [fleetRoute];
