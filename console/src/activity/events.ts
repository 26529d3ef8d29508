/** Which events the list shows: the query of the archive, and the same decision for an event of the stream. */

import type { ArchiveQuery } from "../live/archive";
import type { EventRecord } from "../live/event";
import { groupOf } from "./rows";

export interface EventFilters {
  /** The groups of kinds, such as `job`; all where there are none. */
  groups: readonly string[];
  subject: string | null;
  since: string | null;
  until: string | null;
}

const PAGE = 200;

export function archived({ groups, subject, since, until }: EventFilters): ArchiveQuery {
  return { limit: PAGE, kinds: groups.map((group) => `${group}.*`), subject, since, until };
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
