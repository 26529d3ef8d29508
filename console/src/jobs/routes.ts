import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { clusterRoute } from "../app/rootRoute";
import { JobsSearch } from "./filters/filters";
import { jobsQuery } from "./queries";
import { JobSearch } from "./tabs";

const jobsRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/jobs",
  validateSearch: JobsSearch,
  // The first jobs are asked for while the page itself is loaded, which waits for neither.
  loader: ({ context, params }) => void context.queries.prefetchQuery(jobsQuery(params.cluster)),
  component: lazyRouteComponent(() => import("./JobsPage"), "JobsPage"),
});

const jobRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/jobs/$job",
  validateSearch: JobSearch,
  component: lazyRouteComponent(() => import("./job/JobPage"), "JobPage"),
});

export const jobsRoutes = [jobsRoute, jobRoute];
