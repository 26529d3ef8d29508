import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";

const sessionsRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/sessions",
  /** `template`: the form for a session is open, with this template; empty for none yet. */
  validateSearch: v.object({ template: v.fallback(v.optional(v.string()), undefined) }),
  component: lazyRouteComponent(() => import("./SessionsPage"), "SessionsPage"),
});

export const sessionsRoutes = [sessionsRoute];
