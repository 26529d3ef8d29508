import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";

const workflowsRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/workflows",
  component: lazyRouteComponent(() => import("./WorkflowsPage"), "WorkflowsPage"),
});

export const workflowsRoutes = [workflowsRoute];
