import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import * as v from "valibot";
import { clusterRoute } from "../app/rootRoute";
import { dayParam } from "../app/searchParams";
import { isSection } from "./sections";

const word = v.fallback(v.optional(v.pipe(v.string(), v.maxLength(200))), undefined);
const Search = v.object({
  /** What names and addresses must have in them. */
  find: word,
  /** The days of the audit. */
  from: dayParam,
  to: dayParam,
  /** The action of the audit's entries, such as `member.changed`, or the group of them, such as `member.`. */
  action: word,
});

const adminRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/admin",
  staticData: { needsNoCluster: true },
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/c/$cluster/admin/$section", params: { ...params, section: "members" }, replace: true });
  },
});

const sectionRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/admin/$section",
  validateSearch: Search,
  staticData: { needsNoCluster: true },
  beforeLoad: ({ params }) => {
    if (isSection(params.section)) return;
    throw redirect({ to: "/c/$cluster/admin/$section", params: { ...params, section: "members" }, replace: true });
  },
  component: lazyRouteComponent(() => import("./AdminPage"), "AdminPage"),
});

const tokensRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/tokens",
  staticData: { needsNoCluster: true },
  component: lazyRouteComponent(() => import("./OwnTokensPage"), "OwnTokensPage"),
});

export const peopleRoutes = [adminRoute, sectionRoute, tokensRoute];
