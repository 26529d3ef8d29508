import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";

const adminRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/admin",
  component: lazyRouteComponent(() => import("./AdminPage"), "AdminPage"),
});

export const peopleRoutes = [adminRoute];
