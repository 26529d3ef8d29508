/** A list of events in components: the pages of the archive, and the newest events that the stream tells beside them. */

import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { archiveQuery, type ArchiveQuery } from "../archive";
import type { EventRecord, LiveEvent } from "../event";
import { afterRead, joins, merged, NONE_YET, pagesAfter, withEvents, type Newest } from "./newest";
import { useFeed, useLiveEvents } from "../useLive";

/** An answer without a position says that the archive is behind, and the API then wants the list asked for again. */
const BEHIND_MS = 2_000;
const MOST_BEHIND = 30;

/** The events of a query, the newest first. `passes`: whether the archive would have an event of the stream in it. */
export function useArchive(cluster: string, query: ArchiveQuery, passes: (event: EventRecord) => boolean) {
  const feed = useFeed();
  const queries = useQueryClient();
  const options = archiveQuery(cluster, query);
  const list = JSON.stringify(options.queryKey);
  const pages = useInfiniteQuery(options);
  const { data, dataUpdatedAt, refetch } = pages;
  const position = data?.pages[0]?.position ?? null;
  const [held, setHeld] = useState<{ list: string; newest: Newest }>({ list, newest: NONE_YET });
  const newest = held.list === list ? held.newest : NONE_YET;
  const [resets, setResets] = useState(0);

  const change = (to: (before: Newest) => Newest) =>
    setHeld((before) => {
      const own = before.list === list ? before.newest : NONE_YET;
      const after = to(own);
      return before.list === list && after === own ? before : { list, newest: after };
    });
  const add = (before: Newest, told: readonly LiveEvent[]) => withEvents(before, told.filter(passes));

  useEffect(() => {
    if (position === null) return;
    const missed = feed.follow(cluster, position);
    change((before) => add(afterRead(before, position), missed));
  }, [feed, cluster, position, list, resets]);
  useLiveEvents([""], (told) => change((before) => add(before, told)));
  useEffect(() => feed.onReset(() => void refetch().then(() => setResets((times) => times + 1))), [feed, refetch]);

  useEffect(() => {
    if (data === undefined || joins(newest, data.pages)) return;
    void queries.cancelQueries({ queryKey: options.queryKey });
    const kept = pagesAfter(newest, data.pages);
    queries.setQueryData(options.queryKey, { pages: kept, pageParams: data.pageParams.slice(0, kept.length) });
    // The key is new in each render, and its text is not.
  }, [queries, data, newest, list]);

  const behind = data !== undefined && position === null;
  useAskedAgain(behind, dataUpdatedAt, () => void refetch({ cancelRefetch: false }));
  const events = useMemo(() => merged(newest, data?.pages ?? []), [newest, data]);
  return { pages, events, behind };
}

function useAskedAgain(behind: boolean, readAt: number, ask: () => void): void {
  const asked = useRef(0);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    if (!behind) asked.current = 0;
    if (!behind || asked.current >= MOST_BEHIND) return undefined;
    const timer = setTimeout(() => {
      asked.current += 1;
      latest.current();
    }, BEHIND_MS);
    return () => clearTimeout(timer);
  }, [behind, readAt]);
}
