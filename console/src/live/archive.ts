/** The archived events of a cluster, the newest first, page by page. */

import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, positioned } from "../api/client";
import { eventRecord, type EventRecord } from "./event";

export interface ArchiveQuery {
  limit: number;
  /** Such as `scale.decided` or `job.*`; all kinds where there are none. */
  kinds: readonly string[];
  subject: string | null;
  /** ISO 8601, inclusive. */
  since: string | null;
  /** ISO 8601, exclusive. */
  until: string | null;
}

/** Where a page begins. A cursor belongs to the query that it came with. */
interface From {
  cursor: string | null;
  until: string | null;
}

export interface ArchivePage {
  events: EventRecord[];
  /** Where the next page begins; null after the last one. */
  next: From | null;
  /** In the stream of events; null while the archive is behind it. */
  position: number | null;
  /** What the page was read up to. */
  until: string | null;
}

/** The archive looks through so much at a time that a page can be empty and not the last one. */
const MOST_READS = 10;

export function archiveQuery(cluster: string, query: ArchiveQuery) {
  return infiniteQueryOptions({
    queryKey: ["events", cluster, query],
    // The newest events are held beside the pages, only while these are shown.
    gcTime: 0,
    queryFn: ({ pageParam, signal }) => archivePage(cluster, query, pageParam, signal),
    initialPageParam: { cursor: null, until: query.until } as From,
    getNextPageParam: (page: ArchivePage) => page.next,
  });
}

/** One page. An empty one with a cursor is read on, a few times at most. */
export async function archivePage(cluster: string, query: ArchiveQuery, from: From, signal: AbortSignal): Promise<ArchivePage> {
  const first = await readPage(cluster, query, from, signal);
  let page = first;
  for (let reads = 1; page.events.length === 0 && page.next !== null && reads < MOST_READS; reads += 1) {
    page = await readPage(cluster, query, page.next, signal);
  }
  return { ...page, position: first.position };
}

async function readPage(cluster: string, query: ArchiveQuery, { cursor, until }: From, signal: AbortSignal): Promise<ArchivePage> {
  const { limit, kinds, subject, since } = query;
  const { data, position } = await positioned(
    api.GET("/v1/clusters/{cluster_id}/events", {
      params: {
        path: { cluster_id: cluster },
        query: {
          newest_first: true,
          limit,
          ...(kinds.length > 0 ? { kind: [...kinds] } : {}),
          ...(subject === null ? {} : { subject }),
          ...(since === null ? {} : { after: since }),
          ...(until === null ? {} : { before: until }),
          ...(cursor === null ? {} : { cursor }),
        },
      },
      signal,
    }),
  );
  const events = data.events.map(eventRecord).filter((event) => event !== null);
  return { events, next: data.cursor ? { cursor: data.cursor, until } : null, position, until };
}
