/** The jobs of a cluster in components: read once, then kept right by events. */

import { useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useEffect } from "react";
import { useFeed, useLiveEvents } from "../live/useLive";
import { applyEvents, jobsQuery, type JobList } from "./jobs";

export function useJobs(cluster: string): UseQueryResult<JobList> {
  const feed = useFeed();
  const queries = useQueryClient();
  const jobs = useQuery(jobsQuery(cluster));
  const position = jobs.data?.position;
  useEffect(() => {
    // Events that came while the list was read.
    if (position !== undefined) applyEvents(queries, cluster, feed.follow(cluster, position));
  }, [feed, queries, cluster, position === undefined]);
  useLiveEvents(["job."], (events) => applyEvents(queries, cluster, events));
  const { refetch } = jobs;
  useEffect(() => feed.onReset(() => void refetch()), [feed, refetch]);
  return jobs;
}
