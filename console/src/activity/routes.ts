import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";
import { momentParam } from "../app/searchParams";

const optional = v.fallback(v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(500))), undefined);

const Search = v.object({
  kinds: v.fallback(v.optional(v.array(v.pipe(v.string(), v.regex(/^[a-z]{1,32}$/)))), undefined),
  subject: optional,
  since: momentParam,
  until: momentParam,
});

const activityRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/activity",
  validateSearch: Search,
  component: lazyRouteComponent(() => import("./ActivityPage"), "ActivityPage"),
});

export const activityRoutes = [activityRoute];
