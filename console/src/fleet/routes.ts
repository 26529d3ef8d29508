import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";
import { momentParam } from "../app/searchParams";

const Search = v.object({
  range: v.fallback(v.optional(v.picklist(["1h", "6h", "24h", "7d"])), undefined),
  /** The moment whose decision is open. */
  moment: momentParam,
});

const fleetRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/fleet",
  validateSearch: Search,
  component: lazyRouteComponent(() => import("./FleetPage"), "FleetPage"),
});

export const fleetRoutes = [fleetRoute];
