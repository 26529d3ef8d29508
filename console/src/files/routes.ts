import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";

const filesRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/files",
  component: lazyRouteComponent(() => import("./FilesPage"), "FilesPage"),
});

export const filesRoutes = [filesRoute];
