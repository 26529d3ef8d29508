/** What the page of the fleet shows, kept right by events: decisions and counts are patched, workers are read again. */

import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { clusterQuery, refetchQuery } from "../api/queries";
import { JOB_ENDS } from "../live/event";
import { useArchive } from "../live/lists/useArchive";
import { useLiveRefetch } from "../live/useLive";
import { positionOfPages, useLiveList } from "../live/lists/useLiveList";
import { decisionOf } from "./decisions";
import { DECISIONS, fleetQuery, workersQuery, type Range } from "./queries";
import { withDecisions, withUpdate } from "./chart/series";

export function useFleet(cluster: string, range: Range) {
  const queries = useQueryClient();
  const { queryKey: fleetKey } = fleetQuery(cluster, range);
  const detail = useQuery(clusterQuery(cluster));
  const fleet = useQuery(fleetQuery(cluster, range));
  const workers = useInfiniteQuery(workersQuery(cluster));
  const { pages, events: decided } = useArchive(cluster, DECISIONS, ({ data }) => data.kind === "scale.decided");
  const told = useMemo(() => decided.map(decisionOf).filter((decision) => decision !== null), [decided]);

  useLiveList({
    cluster,
    list: fleet.data,
    kinds: ["scale.decided"],
    again: () => refetchQuery(fleet),
    take: (events) => {
      const decisions = events.map(decisionOf).filter((decision) => decision !== null);
      queries.setQueryData(fleetKey, (data) => data && withDecisions(data, decisions));
      return [];
    },
  });
  useLiveList({
    cluster,
    list: useMemo(() => positionOfPages(workers.data?.pages), [workers.data]),
    kinds: ["worker.", "node.", "job.running", ...JOB_ENDS],
    again: () => refetchQuery(workers),
  });
  useLiveRefetch(["cluster."], () => refetchQuery(detail));

  // The sums by shape are absolute: they become the end of the series, however many events there were.
  const now = workers.data?.pages[0];
  const read = fleet.data !== undefined;
  useEffect(() => {
    if (now === undefined || now.workers === null || now.as_of === null || !read) return;
    const { as_of, shapes } = now;
    queries.setQueryData(fleetKey, (data) => {
      if (data === undefined || Date.parse(as_of) < Date.parse(data.as_of)) return data;
      const live = new Map(shapes.map(({ shape, workers: each }) => [shape, each]));
      const gone = data.now.filter(({ shape }) => !live.has(shape)).map(({ shape }) => ({ shape, live: 0 }));
      return withUpdate(data, { at: as_of, counts: [...[...live].map(([shape, each]) => ({ shape, live: each })), ...gone] });
    });
  }, [queries, cluster, range, now, read]);

  return { detail, fleet, workers, decisions: { pages, told } };
}
