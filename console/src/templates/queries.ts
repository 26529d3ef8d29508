/** What the pages of templates read, and what they change. */

import { queryOptions } from "@tanstack/react-query";
import { api, body, done } from "../api/client";
import type { VersionList } from "../api/schema";

export const templatesQuery = queryOptions({
  queryKey: ["templates"],
  queryFn: ({ signal }) => body(api.GET("/v1/templates", { signal })),
});

export function versionsQuery(id: string) {
  return queryOptions({
    queryKey: ["template", id, "versions"],
    queryFn: ({ signal }) =>
      body(api.GET("/v1/templates/{template_id}/versions", { params: { path: { template_id: id } }, signal })),
  });
}

export function versionQuery(id: string, number: number) {
  return queryOptions({
    queryKey: ["template", id, "versions", number],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/templates/{template_id}/versions/{number}", {
          params: { path: { template_id: id, number: String(number) } },
          signal,
        }),
      ),
    // A version is never changed.
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Adds a template, or with its id another version of it. */
export function writeTemplate(id: string | null, definition: string, key: string): Promise<VersionList> {
  const header = { "Idempotency-Key": key };
  return id === null
    ? body(api.POST("/v1/templates", { params: { header }, body: { definition } }))
    : body(
        api.POST("/v1/templates/{template_id}/versions", {
          params: { path: { template_id: id }, header },
          body: { definition },
        }),
      );
}

export function review(id: string, number: number, approve: boolean, note: string): Promise<VersionList> {
  return body(
    api.POST("/v1/templates/{template_id}/versions/{number}/review", {
      params: { path: { template_id: id, number: String(number) } },
      body: { approve, note },
    }),
  );
}

export function publish(id: string, number: number): Promise<VersionList> {
  return body(
    api.POST("/v1/templates/{template_id}/versions/{number}/publish", { params: { path: { template_id: id, number: String(number) } } }),
  );
}

export function removeTemplate(id: string): Promise<void> {
  return done(api.DELETE("/v1/templates/{template_id}", { params: { path: { template_id: id } } }));
}
