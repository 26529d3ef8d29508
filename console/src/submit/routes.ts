import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";

const submitRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/submit",
  component: lazyRouteComponent(() => import("./SubmitPage"), "SubmitPage"),
});

export const submitRoutes = [submitRoute];
