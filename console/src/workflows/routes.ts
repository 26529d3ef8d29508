import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";

const workflowsRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/workflows",
  component: lazyRouteComponent(() => import("./WorkflowsPage"), "WorkflowsPage"),
});

const runRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/workflows/runs/$run",
  component: lazyRouteComponent(() => import("./RunPage"), "RunPage"),
});

const schedulesRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/workflows/schedules",
  /** `template`: the form for a schedule is open, with this template; empty for none yet. `edit`: that of this schedule. */
  validateSearch: v.object({
    template: v.fallback(v.optional(v.string()), undefined),
    edit: v.fallback(v.optional(v.string()), undefined),
  }),
  component: lazyRouteComponent(() => import("./SchedulesPage"), "SchedulesPage"),
});

export const workflowsRoutes = [workflowsRoute, runRoute, schedulesRoute];
