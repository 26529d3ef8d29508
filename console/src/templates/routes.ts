import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";

const templatesRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/templates",
  component: lazyRouteComponent(() => import("./TemplatesPage"), "TemplatesPage"),
});

export const templatesRoutes = [templatesRoute];
