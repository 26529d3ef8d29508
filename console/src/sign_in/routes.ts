import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import * as v from "valibot";
import { rootRoute } from "../app/rootRoute";

// A path of our own: the gateway checks it again.
const Search = v.object({ return_to: v.fallback(v.optional(v.pipe(v.string(), v.regex(/^\/(?![/\\])/))), undefined) });

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: Search,
  component: lazyRouteComponent(() => import("./SignInPage"), "SignInPage"),
});

export const signInRoutes = [signInRoute];
