/** The sessions of the person in components, kept right by events: states are patched at once, the rest is read. */

import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import { profileQuery, refetchQuery, refetchQueries } from "../api/queries";
import type { SessionDetail } from "../api/schema";
import { factOf, withFact } from "../jobs/list/fact";
import { jobQuery } from "../jobs/queries";
import type { LiveEvent } from "../live/event";
import type { Source } from "../live/lists/singleReads";
import { useLiveList } from "../live/lists/useLiveList";
import { useSingleReads } from "../live/lists/useSingleReads";
import { jobOf, mayStart, withEvent } from "./listUpdates";
import { readSession, sessionsQuery } from "./queries";

export function useSessions(cluster: string) {
  const queries = useQueryClient();
  const query = useQuery(sessionsQuery(cluster));
  const uid = useQuery(profileQuery).data?.uid;
  const rows = query.data?.sessions ?? [];
  const list = () => refetchQuery(query);
  const latest = useRef(list);
  latest.current = list;
  const source = useMemo(() => sessionSource(queries, cluster, () => latest.current()), [queries, cluster]);
  const reads = useSingleReads(source);
  useLiveList({
    cluster,
    list: query.data,
    // A session is a job.
    kinds: ["job.", "session."],
    again: list,
    take: (events) => {
      const unknown: LiveEvent[] = [];
      for (const event of events) {
        const listed = takeEvent(queries, cluster, event);
        // What a session waits for, or how it ended, is in its record alone.
        if (listed && event.data.kind !== "session.ready") reads.current?.want(jobOf(event));
        if (!listed && mayStart(event, uid)) unknown.push(event);
      }
      return unknown;
    },
  });
  const again = () => Promise.all([list(), refetchQueries(queries, ...rows.map(({ job_id }) => jobQuery(cluster, job_id).queryKey))]);
  return { query, rows, again };
}

/** Whether the event is of a session in the list. */
function takeEvent(queries: QueryClient, cluster: string, event: LiveEvent): boolean {
  const jobId = jobOf(event);
  const { queryKey } = sessionsQuery(cluster);
  if (!queries.getQueryData(queryKey)?.sessions.some(({ job_id }) => job_id === jobId)) return false;
  update(queries, cluster, (sessions) => withEvent(sessions, event));
  const fact = factOf(event);
  if (fact !== null) queries.setQueryData(jobQuery(cluster, jobId).queryKey, (job) => job && withFact(job, fact));
  return true;
}

function update(queries: QueryClient, cluster: string, to: (sessions: readonly SessionDetail[]) => readonly SessionDetail[]): void {
  queries.setQueryData(sessionsQuery(cluster).queryKey, (list) => list && { ...list, sessions: to(list.sessions) });
}

/** Reads single sessions into the list; in place of very many, the list. */
function sessionSource(queries: QueryClient, cluster: string, list: () => Promise<void>): Source {
  return {
    async one(jobId, signal) {
      const session = await readSession(cluster, jobId, signal);
      if (session !== null) update(queries, cluster, (rows) => rows.map((row) => (row.job_id === jobId ? session : row)));
    },
    many: list,
  };
}
