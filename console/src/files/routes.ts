import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";

const optionalText = v.fallback(v.optional(v.string()), undefined);

const Search = v.object({
  root: v.fallback(v.optional(v.picklist(["bucket", "folder"])), undefined),
  path: optionalText,
  /** The path of the file whose panel is open. */
  file: optionalText,
  sort: optionalText,
  descending: v.fallback(v.optional(v.boolean()), undefined),
});

const filesRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/files",
  validateSearch: Search,
  component: lazyRouteComponent(() => import("./FilesPage"), "FilesPage"),
});

export const filesRoutes = [filesRoute];
