/** The jobs of a cluster in components: the first page at once, the others after it, and all kept right by events. */

import { useQuery, useQueryClient, type QueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useSingleReads } from "../../live/lists/useSingleReads";
import { useFeed, useLiveEvents } from "../../live/useLive";
import { jobsPage, jobsQuery } from "../queries";
import { isComplete, withHistory, withPage, type JobList } from "./list";
import { applyEvents, listSource, PAGE, updateList } from "./listUpdates";
import { beginning } from "./since";

export interface Jobs {
  query: UseQueryResult<JobList>;
  /** What stopped the pages after the first from being read. */
  missing: Error | null;
  readOn: () => void;
  /** Whether all jobs that were asked for are here. */
  whole: boolean;
  /** From when on ended jobs are here. */
  since: Date;
}

/** The jobs that wait or run, and those that were submitted since a day of the viewer, by default a week ago. */
export function useJobs(cluster: string, sinceDay?: string): Jobs {
  const since = useMemo(() => beginning(sinceDay), [sinceDay]);
  const feed = useFeed();
  const queries = useQueryClient();
  const query = useQuery(jobsQuery(cluster));
  const reads = useSingleReads(useMemo(() => listSource(queries, cluster), [queries, cluster]));
  const readAt = query.data?.readAt;
  useEffect(() => {
    // Events that came while the list was read, the first time and after each reset.
    const list = queries.getQueryData(jobsQuery(cluster).queryKey);
    if (list !== undefined) applyEvents(queries, cluster, feed.follow(cluster, list.position), reads.current, true);
  }, [feed, queries, cluster, reads, readAt]);
  useLiveEvents(["job."], (events) => applyEvents(queries, cluster, events, reads.current, false));
  const { refetch } = query;
  useEffect(() => feed.onReset(() => void refetch()), [feed, refetch]);
  const rest = useRest(queries, cluster, since.toISOString(), query.data);
  return { query, ...rest, since };
}

/** Reads the pages after the first, one after the other: of what Slurm remembers, then of the accounting. */
function useRest(queries: QueryClient, cluster: string, since: string, list: JobList | undefined): Pick<Jobs, "missing" | "readOn" | "whole"> {
  const [missing, setMissing] = useState<Error | null>(null);
  const [attempt, setAttempt] = useState(0);
  const readAt = list?.readAt;
  const whole = list !== undefined && isComplete(list, since);
  const cursor = list?.cursor ?? null;
  const earlier = list?.history?.since === since ? list.history.cursor : null;
  useEffect(() => {
    if (readAt === undefined || whole) return undefined;
    const ended = new AbortController();
    setMissing(null);
    const page =
      cursor !== null
        ? jobsPage(cluster, { limit: PAGE, cursor }, ended.signal).then(({ data, position }) =>
            updateList(queries, cluster, (now) => withPage(now, data, position ?? 0)),
          )
        : jobsPage(cluster, { limit: PAGE, submitted_after: since, ...(earlier === null ? {} : { cursor: earlier }) }, ended.signal).then(
            ({ data, position }) => updateList(queries, cluster, (now) => withHistory(now, since, data, position ?? 0)),
          );
    page.catch((error: Error) => {
      if (!ended.signal.aborted) setMissing(error);
    });
    return () => ended.abort();
  }, [queries, cluster, readAt, whole, cursor, since, earlier, attempt]);
  const readOn = useCallback(() => setAttempt((made) => made + 1), []);
  return { missing, readOn, whole };
}
