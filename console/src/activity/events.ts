/** The archived events of a cluster, page by page, and those that the stream has told since. */

import { infiniteQueryOptions, type InfiniteData } from "@tanstack/react-query";
import { api, positioned } from "../api/client";
import { eventRecord, type EventRecord, type LiveEvent } from "../live/event";
import { groupOf } from "./rows";

export interface EventFilters {
  /** The groups of kinds, such as `job`; all where there are none. */
  groups: readonly string[];
  subject: string | null;
  since: string | null;
  until: string | null;
}

export interface EventPage {
  events: EventRecord[];
  cursor: string | null;
  /** Null while the archive is behind the stream. */
  position: number | null;
}

const PAGE = 200;
/** The most events that a page keeps from the stream. */
const MOST_LIVE = 2_000;

export function eventsQuery(cluster: string, filters: EventFilters) {
  return infiniteQueryOptions({
    queryKey: ["events", cluster, filters],
    queryFn: async ({ pageParam, signal }): Promise<EventPage> => {
      const { data, position } = await positioned(
        api.GET("/v1/clusters/{cluster_id}/events", {
          params: {
            path: { cluster_id: cluster },
            query: {
              newest_first: true,
              limit: PAGE,
              ...(filters.groups.length > 0 ? { kind: filters.groups.map((group) => `${group}.*`) } : {}),
              ...(filters.subject === null ? {} : { subject: filters.subject }),
              ...(filters.since === null ? {} : { after: filters.since }),
              ...(filters.until === null ? {} : { before: filters.until }),
              ...(pageParam === null ? {} : { cursor: pageParam }),
            },
          },
          signal,
        }),
      );
      return { events: data.events.map(eventRecord).filter((event) => event !== null), cursor: data.cursor ?? null, position };
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
  });
}

/** Whether an event passes the filters, as the archive would decide. */
export function passes(event: EventRecord, filters: EventFilters): boolean {
  const at = Date.parse(event.time);
  return (
    (filters.groups.length === 0 || filters.groups.includes(groupOf(event.data.kind))) &&
    (filters.subject === null || event.subject === filters.subject) &&
    (filters.since === null || at >= Date.parse(filters.since)) &&
    (filters.until === null || at < Date.parse(filters.until))
  );
}

/** The pages with events of the stream before them. Those that are there already are left out. */
export function withLive(
  data: InfiniteData<EventPage>,
  events: readonly LiveEvent[],
  filters: EventFilters,
): InfiniteData<EventPage> {
  const [first, ...rest] = data.pages;
  if (first === undefined) return data;
  const known = new Set(first.events.map(({ id }) => id));
  const added = events.filter((event) => !known.has(event.id) && passes(event, filters)).toReversed();
  if (added.length === 0) return data;
  const kept = [...added, ...first.events].slice(0, Math.max(MOST_LIVE, PAGE));
  return { ...data, pages: [{ ...first, events: kept }, ...rest] };
}
