import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";

const costsRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/costs",
  component: lazyRouteComponent(() => import("./CostsPage"), "CostsPage"),
});

export const moneyRoutes = [costsRoute];
