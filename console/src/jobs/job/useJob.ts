/** One job, kept right by its events: what they tell is patched at once, the rest is read again. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { useFeed, useLiveEvents } from "../../live/useLive";
import { arrayOf } from "../arrayTasks";
import { changes, factOf } from "../fact";
import { jobCostsQuery, jobEventsQuery, jobQuery, jobTimelineQuery, whyQuery } from "../jobs";

const READ_AGAIN_MS = 500;

export function useJob(cluster: string, jobId: string) {
  const queries = useQueryClient();
  const job = useQuery(jobQuery(cluster, jobId));
  const why = useQuery(whyQuery(cluster, jobId));
  const again = useCallback(() => {
    void queries.invalidateQueries({ queryKey: ["job", cluster, jobId] });
  }, [queries, cluster, jobId]);
  const readSoon = useReadSoon(again);
  useLiveEvents(["job.", "action."], (events) => {
    const own = events.filter(({ subject }) => subject === jobId || arrayOf(subject) === jobId);
    if (own.length === 0) return;
    for (const event of own) {
      const fact = factOf(event);
      if (fact === null || fact.job_id !== jobId) continue;
      queries.setQueryData(jobQuery(cluster, jobId).queryKey, (known) => (known === undefined ? known : { ...known, ...changes(fact) }));
    }
    readSoon();
  });
  return { job, why };
}

/** Reads again a moment after the first event, once for all that come until then; and after events that were not told. */
function useReadSoon(again: () => void): () => void {
  const feed = useFeed();
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(() => feed.onReset(again), [feed, again]);
  useEffect(
    () => () => {
      if (timer.current !== null) clearTimeout(timer.current);
      timer.current = null;
    },
    [again],
  );
  return useCallback(() => {
    timer.current ??= setTimeout(() => {
      timer.current = null;
      again();
    }, READ_AGAIN_MS);
  }, [again]);
}

export function useJobCosts(cluster: string, jobId: string) {
  return useQuery(jobCostsQuery(cluster, jobId));
}

export function useJobEvents(cluster: string, jobId: string) {
  return useQuery(jobEventsQuery(cluster, jobId));
}

export function useJobTimeline(cluster: string, jobId: string) {
  return useQuery(jobTimelineQuery(cluster, jobId));
}
