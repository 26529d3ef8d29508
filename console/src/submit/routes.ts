import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";
import { jobParam } from "../app/searchParams";

const Search = v.object({
  /** The template whose form is shown in place of a script. */
  template: v.fallback(v.optional(v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9-]{0,63}$/))), undefined),
  /** A job whose script is written into the draft. */
  rerun: jobParam,
  /** A file of the bucket that the job gets. */
  file: v.fallback(v.optional(v.pipe(v.string(), v.maxLength(4096))), undefined),
});

const submitRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/submit",
  validateSearch: Search,
  component: lazyRouteComponent(() => import("./SubmitPage"), "SubmitPage"),
});

export const submitRoutes = [submitRoute];
