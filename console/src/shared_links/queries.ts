/** Links to jobs, as those see them who may make or revoke them. */

import { queryOptions } from "@tanstack/react-query";
import { allPages } from "../api/allPages";
import { api, body, done } from "../api/client";
import type { Job, MadeLink, NewLink, OwnLink, Profile } from "../api/schema";
import { includes } from "../app/permissions";

const OWN_PAGE = 100;

export interface Target {
  cluster: string;
  job: string;
}

function path({ cluster, job }: Target) {
  return { cluster_id: cluster, job_id: job };
}

/** Whether somebody may make a link to a job: its owner alone. */
export function mayMake(me: Profile, job: Pick<Job, "uid">): boolean {
  return job.uid === me.uid && includes(me.role, "member");
}

/** Whether somebody sees links of a job: its owner their own, and admins everybody's. */
export function mayList(me: Profile, job: Pick<Job, "uid">): boolean {
  return mayMake(me, job) || includes(me.role, "admin");
}

export function linksQuery(target: Target) {
  return queryOptions({
    queryKey: ["shared links", target.cluster, target.job],
    queryFn: ({ signal }) =>
      body(api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}/links", { params: { path: path(target) }, signal })),
    // No event tells of links: the list is read whenever it is opened.
    staleTime: 0,
  });
}

/** The caller's own links to the jobs of all clusters, the newest first: 200 at most, which the gateway lets one person have. */
export const ownLinksQuery = queryOptions({
  queryKey: ["shared links", "own"],
  queryFn: async ({ signal }) => {
    const { rows } = await allPages<OwnLink>(async (cursor) => {
      const query = { limit: OWN_PAGE, ...(cursor === null ? {} : { cursor }) };
      const page = await body(api.GET("/v1/users/me/links", { params: { query }, signal }));
      return [page.links, page.cursor];
    });
    return rows.sort((one, other) => Date.parse(other.created_at) - Date.parse(one.created_at));
  },
  staleTime: 0,
});

export function makeLink(target: Target, key: string, wanted: NewLink): Promise<MadeLink> {
  return body(
    api.POST("/v1/clusters/{cluster_id}/jobs/{job_id}/links", {
      params: { path: path(target), header: { "Idempotency-Key": key } },
      body: wanted,
    }),
  );
}

export function revokeLink(target: Target, link: string): Promise<void> {
  return done(
    api.DELETE("/v1/clusters/{cluster_id}/jobs/{job_id}/links/{link_id}", { params: { path: { ...path(target), link_id: link } } }),
  );
}
