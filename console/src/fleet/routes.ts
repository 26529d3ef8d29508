import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";

const Search = v.object({
  range: v.fallback(v.optional(v.picklist(["1h", "6h", "24h", "7d"])), undefined),
  /** The moment whose decision is open. */
  moment: v.fallback(v.optional(v.pipe(v.string(), v.isoTimestamp())), undefined),
});

const fleetRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/fleet",
  validateSearch: Search,
  component: lazyRouteComponent(() => import("./FleetPage"), "FleetPage"),
});

export const fleetRoutes = [fleetRoute];
