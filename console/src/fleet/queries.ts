/** What the page of the fleet reads: the fleet over time, its workers, and the decisions. */

import { infiniteQueryOptions, queryOptions, type InfiniteData } from "@tanstack/react-query";
import { api, body, positioned } from "../api/client";
import type { PolicyChanges } from "../api/schema";
import { eventRecord, type LiveEvent } from "../live/event";
import { decisionOf, type Decision } from "./decisions";

export const RANGES = ["1h", "6h", "24h", "7d"] as const;
export type Range = (typeof RANGES)[number];

const HOUR_MS = 3_600_000;
const LENGTHS: Record<Range, number> = { "1h": HOUR_MS, "6h": 6 * HOUR_MS, "24h": 24 * HOUR_MS, "7d": 168 * HOUR_MS };
const DECISIONS = 100;
const WORKERS = 500;
/** The most decisions that are kept from the stream. */
const MOST_LIVE = 1_000;

export function fleetQuery(cluster: string, range: Range) {
  return queryOptions({
    queryKey: ["fleet", cluster, range],
    queryFn: ({ signal }) => {
      const after = new Date(Date.now() - LENGTHS[range]).toISOString();
      return body(api.GET("/v1/clusters/{cluster_id}/fleet", { params: { path: { cluster_id: cluster }, query: { after } }, signal }));
    },
  });
}

export function workersQuery(cluster: string) {
  return infiniteQueryOptions({
    queryKey: ["workers", cluster],
    queryFn: ({ pageParam, signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/workers", {
          params: { path: { cluster_id: cluster }, query: { limit: WORKERS, ...(pageParam === null ? {} : { cursor: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
  });
}

interface DecisionPage {
  decisions: Decision[];
  cursor: string | null;
  /** In the stream of events; null while the archive is behind it. */
  position: number | null;
}

async function decisionPage(cluster: string, query: { limit: number; cursor?: string; before?: string }, signal: AbortSignal): Promise<DecisionPage> {
  const { data, position } = await positioned(
    api.GET("/v1/clusters/{cluster_id}/events", {
      params: { path: { cluster_id: cluster }, query: { kind: ["scale.decided"], newest_first: true, ...query } },
      signal,
    }),
  );
  const decisions = data.events.map(eventRecord).map((event) => (event === null ? null : decisionOf(event)));
  return { decisions: decisions.filter((decision) => decision !== null), cursor: data.cursor ?? null, position };
}

export function decisionsQuery(cluster: string) {
  return infiniteQueryOptions({
    queryKey: ["decisions", cluster],
    staleTime: 0,
    queryFn: ({ pageParam, signal }) => decisionPage(cluster, { limit: DECISIONS, ...(pageParam === null ? {} : { cursor: pageParam }) }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
  });
}

/** The pages with the decisions of these events before them. */
export function withDecisions(data: InfiniteData<DecisionPage>, events: readonly LiveEvent[]): InfiniteData<DecisionPage> {
  const [first, ...rest] = data.pages;
  if (first === undefined) return data;
  const known = new Set(first.decisions.map(({ id }) => id));
  const added = events.map(decisionOf).filter((decision) => decision !== null && !known.has(decision.id)) as Decision[];
  if (added.length === 0) return data;
  return { ...data, pages: [{ ...first, decisions: [...added.toReversed(), ...first.decisions].slice(0, MOST_LIVE) }, ...rest] };
}

/** The last decision at a moment or before it; null where there is none, or none that the person may see. */
export function decisionAtQuery(cluster: string, moment: string) {
  // Clocks of browsers tell milliseconds, and events more: the whole millisecond counts.
  const before = new Date(Date.parse(moment) + 1).toISOString();
  return queryOptions({
    queryKey: ["decision", cluster, before],
    queryFn: async ({ signal }) => (await decisionPage(cluster, { limit: 1, before }, signal)).decisions[0] ?? null,
  });
}

export function simulate(cluster: string, policy: PolicyChanges) {
  return body(api.POST("/v1/clusters/{cluster_id}/simulations", { params: { path: { cluster_id: cluster } }, body: { policy } }));
}
