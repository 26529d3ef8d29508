import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";

const Search = v.object({
  sort: v.fallback(v.optional(v.string()), undefined),
  descending: v.fallback(v.optional(v.boolean()), undefined),
});

const jobsRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/jobs",
  validateSearch: Search,
  component: lazyRouteComponent(() => import("./JobsPage"), "JobsPage"),
});

const jobRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/jobs/$job",
  component: lazyRouteComponent(() => import("./JobPage"), "JobPage"),
});

export const jobsRoutes = [jobsRoute, jobRoute];
