/** The frame of all pages: the rail, the bar, and the stream of events of the cluster. */

import { useQuery } from "@tanstack/react-query";
import { Outlet, useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { api, positioned } from "../api/client";
import { useFeed } from "../live/useLive";
import { text } from "../texts";
import { NO_CLUSTER } from "./rootRoute";
import { Bar } from "./Bar";
import { Rail } from "./Rail";
import classes from "./Shell.module.css";

export function Shell() {
  const { cluster } = useParams({ from: "/c/$cluster" });
  useFollowed(cluster);
  return (
    <div className={classes.shell}>
      <a className={classes.skip} href="#content">
        {text("app.skip")}
      </a>
      <Bar cluster={cluster} />
      <Rail cluster={cluster} />
      <main id="content" className={classes.content} tabIndex={-1}>
        <Outlet />
      </main>
    </div>
  );
}

/** Follows the cluster from now on, also on pages whose lists name no position. */
function useFollowed(cluster: string): void {
  const feed = useFeed();
  const anchor = useQuery({
    queryKey: ["position", cluster],
    queryFn: ({ signal }) =>
      positioned(
        api.GET("/v1/clusters/{cluster_id}/jobs", {
          params: { path: { cluster_id: cluster }, query: { limit: 1 } },
          signal,
        }),
      ),
    enabled: cluster !== NO_CLUSTER,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const position = anchor.data?.position;
  useEffect(() => {
    if (position !== undefined && position !== null) feed.follow(cluster, position);
  }, [feed, cluster, position]);
  const { refetch } = anchor;
  useEffect(() => feed.onReset(() => void refetch()), [feed, refetch]);
}
