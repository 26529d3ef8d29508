/** What can be submitted: the templates of the installation and of the tenant. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "./client";

export function launchablesQuery(kind?: "batch" | "interactive" | "preset" | "workflow") {
  return queryOptions({
    queryKey: ["launchables", kind ?? "all"],
    queryFn: ({ signal }) =>
      body(api.GET("/v1/launchables", { params: { query: kind === undefined ? {} : { kind } }, signal })),
  });
}
