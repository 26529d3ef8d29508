import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";
import { dayParam } from "../app/searchParams";


const Search = v.object({
  tab: v.fallback(v.optional(v.picklist(["costs", "limits", "clusters"])), undefined),
  by: v.fallback(v.optional(v.picklist(["user", "account", "template", "job", "day", "shape", "worker"])), undefined),
  /** The first and the last day, in UTC. */
  from: dayParam,
  until: dayParam,
  sort: v.fallback(v.optional(v.picklist(["what", "cost", "hours"])), undefined),
  descending: v.fallback(v.optional(v.boolean()), undefined),
  /** What the rows of all clusters are. */
  of: v.fallback(v.optional(v.picklist(["cluster", "user", "account", "tenant"])), undefined),
});

export type CostsSearch = v.InferOutput<typeof Search>;

const costsRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/costs",
  validateSearch: Search,
  component: lazyRouteComponent(() => import("./CostsPage"), "CostsPage"),
});

export const moneyRoutes = [costsRoute];
