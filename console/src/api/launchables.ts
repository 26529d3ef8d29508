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

/** One template with its definition. */
export function templateQuery(id: string) {
  return queryOptions({
    queryKey: ["template", id],
    queryFn: ({ signal }) => body(api.GET("/v1/templates/{template_id}", { params: { path: { template_id: id } }, signal })),
  });
}
