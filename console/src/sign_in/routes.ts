import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { rootRoute } from "../app/rootRoute";

const Search = v.object({ return_to: v.fallback(v.optional(v.string()), undefined) });

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: Search,
  component: lazyRouteComponent(() => import("./SignInPage"), "SignInPage"),
});

/** The token of the invitation stands behind `#`, which browsers send to no server. */
const invitationRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/invitation",
  component: lazyRouteComponent(() => import("./InvitationPage"), "InvitationPage"),
});

export const signInRoutes = [signInRoute, invitationRoute];
