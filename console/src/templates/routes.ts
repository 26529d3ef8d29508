import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";

export const KINDS = ["batch", "interactive", "preset", "workflow"] as const;
export const TABS = ["try", "definition", "versions", "write"] as const;

const ListSearch = v.object({
  q: v.fallback(v.optional(v.pipe(v.string(), v.maxLength(200))), undefined),
  kind: v.fallback(v.optional(v.picklist(KINDS)), undefined),
  origin: v.fallback(v.optional(v.picklist(["installation", "workspace"])), undefined),
  /** Whether a new template is being written. */
  write: v.fallback(v.optional(v.boolean()), undefined),
  sort: v.fallback(v.optional(v.string()), undefined),
  descending: v.fallback(v.optional(v.boolean()), undefined),
});

const PageSearch = v.object({
  tab: v.fallback(v.optional(v.picklist(TABS)), undefined),
  version: v.fallback(v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))), undefined),
});

const templatesRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/templates",
  validateSearch: ListSearch,
  component: lazyRouteComponent(() => import("./TemplatesPage"), "TemplatesPage"),
});

const templateRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/templates/$template",
  validateSearch: PageSearch,
  component: lazyRouteComponent(() => import("./TemplatePage"), "TemplatePage"),
});

export const templatesRoutes = [templatesRoute, templateRoute];
