/** The jobs of a cluster in components: the first page at once, the others after it, and all kept right by events. */

import { useQuery, useQueryClient, type QueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState, type RefObject } from "react";
import { useFeed, useLiveEvents } from "../live/useLive";
import { hasEnded } from "../ui/jobStates";
import { factOf, isWhole as isWholeRecord } from "./fact";
import { jobQuery, jobsPage, jobsQuery } from "./jobs";
import { isWhole, patched, withHistory, withPage, withRecord, type JobList } from "./list";
import { SingleReads } from "./reading";
import type { LiveEvent } from "../live/event";

const PAGE = 1_000;
/** How far back the list reads, unless somebody asks for more. */
const USUAL_DAYS = 7;

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
  const reads = useSingleReads(queries, cluster);
  const readAt = query.data?.readAt;
  useEffect(() => {
    // Events that came while the list was read, the first time and after each reset.
    const list = queries.getQueryData(jobsQuery(cluster).queryKey);
    if (list !== undefined) apply(queries, cluster, feed.follow(cluster, list.position));
  }, [feed, queries, cluster, readAt]);
  useLiveEvents(["job."], (events) => {
    apply(queries, cluster, events);
    for (const event of events) wantWhole(queries, cluster, event, reads.current);
  });
  const { refetch } = query;
  useEffect(() => feed.onReset(() => void refetch()), [feed, refetch]);
  const rest = useRest(queries, cluster, since.toISOString(), query.data);
  return { query, ...rest, since };
}

/** The beginning of a day; without one that of the usual time. Never later than the usual one: less is filtered. */
function beginning(day: string | undefined): Date {
  const usual = new Date();
  usual.setHours(0, 0, 0, 0);
  usual.setDate(usual.getDate() - USUAL_DAYS);
  const wanted = day === undefined ? usual : new Date(`${day}T00:00:00`);
  return wanted < usual ? wanted : usual;
}

function change(queries: QueryClient, cluster: string, to: (list: JobList) => JobList): void {
  queries.setQueryData(jobsQuery(cluster).queryKey, (list) => (list === undefined ? list : to(list)));
}

function apply(queries: QueryClient, cluster: string, events: readonly LiveEvent[]): void {
  if (events.length > 0) change(queries, cluster, (list) => patched(list, events));
}

/** Asks for the record of a job that its event tells too little of: a new one, and one that ended. */
function wantWhole(queries: QueryClient, cluster: string, event: LiveEvent, reads: SingleReads | null): void {
  const fact = factOf(event);
  const list = queries.getQueryData(jobsQuery(cluster).queryKey);
  if (fact === null || list === undefined || reads === null) return;
  const row = list.index.get(fact.job_id);
  const job = row === undefined ? undefined : list.rows[row];
  if (job !== undefined && (!isWholeRecord(job) || hasEnded(job.state))) reads.want(fact.job_id);
}

function useSingleReads(queries: QueryClient, cluster: string): RefObject<SingleReads | null> {
  const reads = useRef<SingleReads | null>(null);
  useEffect(() => {
    const made = new SingleReads({
      async one(jobId) {
        const list = queries.getQueryData(jobsQuery(cluster).queryKey);
        const row = list?.index.get(jobId);
        const asked = row === undefined ? 0 : (list?.positions[row] ?? 0);
        const job = await queries.fetchQuery({ ...jobQuery(cluster, jobId), staleTime: 0, gcTime: 60_000 });
        change(queries, cluster, (now) => withRecord(now, job, asked));
      },
      async many(signal) {
        const page = await jobsPage(cluster, { limit: PAGE }, signal);
        change(queries, cluster, (now) => ({ ...withPage(now, page.data, page.position ?? 0), cursor: now.cursor }));
      },
    });
    reads.current = made;
    return () => made.end();
  }, [queries, cluster, reads]);
  return reads;
}

/** Reads the pages after the first, one after the other: of what Slurm remembers, then of the accounting. */
function useRest(queries: QueryClient, cluster: string, since: string, list: JobList | undefined): Pick<Jobs, "missing" | "readOn" | "whole"> {
  const [missing, setMissing] = useState<Error | null>(null);
  const [attempt, setAttempt] = useState(0);
  const read = list !== undefined;
  const whole = list !== undefined && isWhole(list, since);
  const cursor = list?.cursor ?? null;
  const earlier = list?.history?.since === since ? list.history.cursor : null;
  useEffect(() => {
    if (!read || whole) return undefined;
    const ended = new AbortController();
    setMissing(null);
    const page =
      cursor !== null
        ? jobsPage(cluster, { limit: PAGE, cursor }, ended.signal).then(({ data, position }) =>
            change(queries, cluster, (now) => withPage(now, data, position ?? 0)),
          )
        : jobsPage(cluster, { limit: PAGE, submitted_after: since, ...(earlier === null ? {} : { cursor: earlier }) }, ended.signal).then(
            ({ data, position }) => change(queries, cluster, (now) => withHistory(now, since, data, position ?? 0)),
          );
    page.catch((error: Error) => {
      if (!ended.signal.aborted) setMissing(error);
    });
    return () => ended.abort();
  }, [queries, cluster, read, whole, cursor, since, earlier, attempt]);
  const readOn = useCallback(() => setAttempt((made) => made + 1), []);
  return { missing, readOn, whole };
}
