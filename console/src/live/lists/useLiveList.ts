/** A list in components that events keep right from the position on that it was read with. */

import { useEffect, useRef } from "react";
import type { Positioned } from "../../api/client";
import { ListEvents, type TakeEvents } from "./listEvents";
import { Refetcher } from "../refetcher";
import { ofKinds, useFeed, useLiveEvents } from "../useLive";

interface LiveList {
  cluster: string;
  /** What was read last; undefined before. */
  list: Positioned | undefined;
  /** As of `useLiveEvents`. */
  kinds: readonly string[];
  /** Reads the list again, after the reading that may be under way. */
  again: () => unknown;
  /** Changes what was read; without it each event has the list read again. */
  take?: TakeEvents;
}

const TAKE_NONE: TakeEvents = (events) => events;

/**
 * Takes each event that the list lacks. For those that tell too little, and after events that were not told, the list is
 * read again: at most once a second, never twice at a time, and not while the tab is hidden.
 */
export function useLiveList({ cluster, list, kinds, again, take = TAKE_NONE }: LiveList): void {
  const feed = useFeed();
  const latest = useRef({ kinds, again, take });
  latest.current = { kinds, again, take };
  const events = useRef<ListEvents | null>(null);
  useEffect(() => {
    const refetcher = new Refetcher(() => (made.due ? latest.current.again() : undefined));
    const made = new ListEvents((lacking) => latest.current.take(lacking), () => refetcher.want());
    events.current = made;
    const stopListening = feed.onReset(() => made.lost());
    return () => {
      stopListening();
      refetcher.end();
    };
  }, [feed, cluster]);
  const position = list?.position;
  const readAt = list?.readAt;
  useEffect(() => {
    if (position === undefined) return;
    const known = position === null ? [] : feed.follow(cluster, position);
    events.current?.read(position, ofKinds(known, latest.current.kinds));
  }, [feed, cluster, position, readAt]);
  useLiveEvents(kinds, (told) => events.current?.told(told));
}

/** Of several pages: as the oldest of them, and read with the newest. */
export function positionOfPages(pages: readonly Positioned[] | undefined): Positioned | undefined {
  const first = pages?.[0];
  if (pages === undefined || first === undefined) return undefined;
  const positions = pages.map(({ position }) => position).filter((position) => position !== null);
  return {
    position: positions.length < pages.length ? null : Math.min(...positions),
    readAt: Math.max(...pages.map(({ readAt }) => readAt)),
  };
}
