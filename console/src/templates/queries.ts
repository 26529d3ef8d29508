/** What the pages of templates read, and what they change. */

import { queryOptions } from "@tanstack/react-query";
import { api, body, done } from "../api/client";
import type { Launched, VersionList } from "../api/schema";
import type { FormRequest } from "../parameters/values";

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

const KEPT_MS = 60_000;

/** The script that values would make. */
export function renderQuery(id: string, version: number | null, request: FormRequest | null) {
  return queryOptions({
    queryKey: ["render", id, version, request],
    queryFn: ({ signal }) =>
      body(
        api.POST("/v1/launchables/{launchable_id}/render", {
          params: { path: { launchable_id: id }, query: version === null ? {} : { version } },
          body: { ...(request as FormRequest) },
          signal,
        }),
      ),
    enabled: request !== null,
    gcTime: KEPT_MS,
  });
}

interface Launch {
  id: string;
  cluster: string;
  request: FormRequest;
  confirmed: number | null;
  key: string;
}

export function launch({ id, cluster, request, confirmed, key }: Launch): Promise<Launched> {
  return body(
    api.POST("/v1/launchables/{launchable_id}/submit", {
      params: { path: { launchable_id: id }, header: { "Idempotency-Key": key } },
      body: { ...request, cluster_id: cluster, ...(confirmed === null ? {} : { confirmed_usd_per_hour: confirmed }) },
    }),
  );
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
