/** The feed in components: its status, and what to do with events. */

import { createContext, useContext, useEffect, useRef, useSyncExternalStore } from "react";
import type { LiveEvent } from "./event";
import type { Feed, Status } from "./feed";
import { Refetcher } from "./refetcher";

export const FeedContext = createContext<Feed | null>(null);

export function useFeed(): Feed {
  const feed = useContext(FeedContext);
  if (feed === null) throw new Error("there is no feed around this component");
  return feed;
}

export function useLiveStatus(): Status {
  const feed = useFeed();
  return useSyncExternalStore(feed.watch, () => feed.status);
}

/** The events of these kinds. A kind that ends with a dot is a prefix, such as `job.`; the empty one is all. */
export function ofKinds(events: readonly LiveEvent[], kinds: readonly string[]): LiveEvent[] {
  return events.filter(({ data }) => kinds.some((kind) => (kind === "" || kind.endsWith(".") ? data.kind.startsWith(kind) : data.kind === kind)));
}

/** Calls `handle` with the events of these kinds, as of `ofKinds`. */
export function useLiveEvents(kinds: readonly string[], handle: (events: LiveEvent[]) => void): void {
  const feed = useFeed();
  const latest = useRef({ kinds, handle });
  latest.current = { kinds, handle };
  useEffect(
    () =>
      feed.listen((events) => {
        const wanted = ofKinds(events, latest.current.kinds);
        if (wanted.length > 0) latest.current.handle(wanted);
      }),
    [feed],
  );
}

/**
 * Calls `again` at most once a second while events of these kinds come, and when some were not told. The promise that
 * it returns is awaited before the next call; while the tab is hidden it is not called. Events for which `matters` is
 * false are left out.
 */
export function useLiveRefetch(kinds: readonly string[], again: () => unknown, matters?: (event: LiveEvent) => boolean): void {
  const feed = useFeed();
  const refetcher = useRef<Refetcher | null>(null);
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    const made = new Refetcher(() => latest.current());
    refetcher.current = made;
    return () => made.end();
  }, []);
  useLiveEvents(kinds, (events) => {
    if (matters === undefined || events.some(matters)) refetcher.current?.want();
  });
  useEffect(() => feed.onReset(() => refetcher.current?.want()), [feed]);
}
