/** What the page of the fleet reads: the fleet over time, its workers, and the decisions. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body, positioned, type Positioned } from "../api/client";
import { STALE_MS } from "../api/queries";
import type { Fleet, PolicyChanges, Workers } from "../api/schema";
import { archivePage, type ArchiveQuery } from "../live/archive";
import { decisionOf } from "./decisions";

export const RANGES = ["1h", "6h", "24h", "7d"] as const;
export type Range = (typeof RANGES)[number];

export const HOUR_MS = 3_600_000;
/** In milliseconds. */
export const LENGTHS: Record<Range, number> = { "1h": HOUR_MS, "6h": 6 * HOUR_MS, "24h": 24 * HOUR_MS, "7d": 168 * HOUR_MS };
const WORKERS = 500;

export function fleetQuery(cluster: string, range: Range) {
  return queryOptions({
    queryKey: ["fleet", cluster, range],
    queryFn: async ({ signal }): Promise<Fleet & Positioned> => {
      const after = new Date(Date.now() - LENGTHS[range]).toISOString();
      const params = { path: { cluster_id: cluster }, query: { after } };
      const { data, ...at } = await positioned(api.GET("/v1/clusters/{cluster_id}/fleet", { params, signal }));
      return { ...data, ...at };
    },
  });
}

/** What the workers did in each of the last hours. `hour`: that which goes on, since 1970. */
export function fleetHoursQuery(cluster: string, hour: number) {
  return queryOptions({
    queryKey: ["fleet-hours", cluster, hour],
    staleTime: STALE_MS,
    queryFn: ({ signal }) => body(api.GET("/v1/clusters/{cluster_id}/fleet/hours", { params: { path: { cluster_id: cluster } }, signal })),
  });
}

export type WorkersPage = Workers & Positioned;

export function workersQuery(cluster: string) {
  return infiniteQueryOptions({
    queryKey: ["workers", cluster],
    queryFn: async ({ pageParam, signal }): Promise<WorkersPage> => {
      const { data, ...at } = await positioned(
        api.GET("/v1/clusters/{cluster_id}/workers", {
          params: { path: { cluster_id: cluster }, query: { limit: WORKERS, ...(pageParam === null ? {} : { cursor: pageParam }) } },
          signal,
        }),
      );
      return { ...data, ...at };
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
  });
}

/** The decisions in the archive of events. */
export const DECISIONS: ArchiveQuery = { limit: 100, kinds: ["scale.decided"], subject: null, since: null, until: null };

/** The last decision at a moment or before it; null where there is none, or none that the person may see. */
export function decisionAtQuery(cluster: string, moment: string) {
  // Clocks of browsers tell milliseconds, and events more: the whole millisecond counts.
  const before = new Date(Date.parse(moment) + 1).toISOString();
  return queryOptions({
    queryKey: ["decision", cluster, before],
    queryFn: async ({ signal }) => {
      const { events } = await archivePage(cluster, { ...DECISIONS, limit: 1 }, { cursor: null, until: before }, signal);
      return events[0] === undefined ? null : decisionOf(events[0]);
    },
  });
}

/** `generation`: the decision whose queue is decided from; null is the queue of now. */
export function simulate(cluster: string, policy: PolicyChanges, generation: number | null) {
  return body(api.POST("/v1/clusters/{cluster_id}/simulations", { params: { path: { cluster_id: cluster } }, body: { policy, generation } }));
}
