/**
 * The newest events of a list, held beside the pages of the archive: a page that is read meanwhile overwrites none of
 * them. There is a bound. What passes it is read from the archive again, on demand.
 */

import type { ArchivePage } from "../archive";
import type { EventRecord, LiveEvent } from "../event";

/** Twice as many are held before the older half goes, so that pages are not read again at each event. */
const MOST_NEWEST = 2_000;

export interface Newest {
  /** Ascending by their positions. */
  events: readonly LiveEvent[];
  /** What went because of the bound: its last position, and the moment up to which the archive has all of it. */
  gone: { position: number; until: string } | null;
}

export const NONE_YET: Newest = { events: [], gone: null };

/** With more events. Those that are held already, and those that went, are left out. */
export function withEvents(held: Newest, told: readonly LiveEvent[], most = MOST_NEWEST): Newest {
  const known = new Set(held.events.map(({ id }) => id));
  const after = held.gone?.position ?? -1;
  const added = told.filter(({ id, position }) => position > after && !known.has(id) && known.add(id));
  if (added.length === 0) return held;
  const events = [...held.events, ...added].toSorted((one, other) => one.position - other.position);
  if (events.length <= 2 * most) return { ...held, events };
  const kept = events.slice(-most);
  const last = events[events.length - most - 1];
  const oldest = kept[0];
  if (last === undefined || oldest === undefined) return held;
  // Events have microseconds, and the clocks of browsers milliseconds.
  return { events: kept, gone: { position: last.position, until: new Date(Date.parse(oldest.time) + 1).toISOString() } };
}

/** After a read of the archive that is complete to a position: it has all up to there. */
export function afterRead(held: Newest, position: number): Newest {
  return {
    events: held.events.filter((event) => event.position > position),
    gone: held.gone !== null && held.gone.position > position ? held.gone : null,
  };
}

/** Whether the pages begin where the held events end. */
export function joins(held: Newest, pages: readonly ArchivePage[]): boolean {
  return held.gone === null || pages[0]?.until === held.gone.until;
}

/** In place of pages between which and the held events some are missing: nothing, and where to read on. */
export function pagesAfter(held: Newest, pages: readonly ArchivePage[]): ArchivePage[] {
  const until = held.gone?.until ?? null;
  return [{ events: [], next: { cursor: null, until }, position: pages[0]?.position ?? null, until }];
}

/** All events, the newest first, each once. */
export function merged(held: Newest, pages: readonly ArchivePage[]): EventRecord[] {
  const newest = held.events.toReversed();
  if (!joins(held, pages)) return newest;
  const known = new Set(newest.map(({ id }) => id));
  return [...newest, ...pages.flatMap(({ events }) => events).filter(({ id }) => !known.has(id) && known.add(id))];
}
