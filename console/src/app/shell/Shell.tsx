/** The frame of all pages: the rail, the bar, and the stream of events of the cluster. */

import { useLocalStorage } from "@mantine/hooks";
import { useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { api, positioned } from "../../api/client";
import { jobsQuery } from "../../jobs/queries";
import { useFeed, useLiveStatus } from "../../live/useLive";
import { text } from "../../texts";
import { Announcer } from "../../ui/announcements";
import { Bar } from "./Bar";
import { ClusterGate } from "./ClusterGate";
import { NO_CLUSTER } from "../rootRoute";
import { Rail } from "./Rail";
import classes from "./Shell.module.css";
import { useRights } from "../useRights";

export function Shell() {
  const { cluster } = useParams({ from: "/c/$cluster" });
  const [folded, fold] = useLocalStorage({ key: "clusterra.rail-folded", defaultValue: false, getInitialValueInEffect: false });
  useRights();
  const anchor = useFollowed(cluster);
  return (
    <div className={classes.shell} data-folded={folded}>
      <a className={classes.skip} href="#content">
        {text("app.skip")}
      </a>
      <Bar cluster={cluster} followed={cluster !== NO_CLUSTER && anchor.error === null} />
      <Rail cluster={cluster} folded={folded} fold={fold} />
      <main id="content" className={classes.content} tabIndex={-1}>
        <ClusterGate cluster={cluster} error={anchor.error} />
      </main>
      <Announcer />
    </div>
  );
}

/** After how long a position is asked for again that the gateway could not tell, or where the stream was refused. */
const AGAIN_MS = 3_000;

/** Follows the cluster from now on, also on pages whose lists name no position. */
function useFollowed(cluster: string): UseQueryResult<{ position: number | null }> {
  const feed = useFeed();
  const { state } = useLiveStatus();
  const queries = useQueryClient();
  const anchor = useQuery({
    queryKey: ["position", cluster],
    queryFn: async ({ signal }) => {
      const jobs = jobsQuery(cluster);
      // The list of jobs names a position, too; later, after a reset, it may have one of before.
      const first = queries.getQueryData(["position", cluster]) === undefined;
      if (first && queries.getQueryState(jobs.queryKey) !== undefined) {
        const { position } = await queries.fetchQuery(jobs);
        if (position > 0) return { position };
      }
      const params = { path: { cluster_id: cluster }, query: { limit: 1 } };
      const { position } = await positioned(api.GET("/v1/clusters/{cluster_id}/jobs", { params, signal }));
      return { position };
    },
    enabled: cluster !== NO_CLUSTER,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const position = anchor.data?.position;
  const { refetch, dataUpdatedAt } = anchor;
  useEffect(() => {
    if (position !== undefined && position !== null) feed.follow(cluster, position);
  }, [feed, cluster, position, dataUpdatedAt]);
  // A replica that has just started knows no position yet. Whoever was refused may have been let in again.
  const again = position === null || state === "refused";
  useEffect(() => {
    if (!again) return undefined;
    const timer = setTimeout(() => void refetch(), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [again, refetch, dataUpdatedAt]);
  return anchor;
}
