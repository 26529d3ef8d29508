import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";
import { JobsSearch } from "./filters";
import { JobSearch } from "./tabs";

const jobsRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/jobs",
  validateSearch: JobsSearch,
  component: lazyRouteComponent(() => import("./JobsPage"), "JobsPage"),
});

const jobRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/jobs/$job",
  validateSearch: JobSearch,
  component: lazyRouteComponent(() => import("./job/JobPage"), "JobPage"),
});

export const jobsRoutes = [jobsRoute, jobRoute];
