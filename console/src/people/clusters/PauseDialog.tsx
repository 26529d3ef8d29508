/** Asks before a cluster is paused or resumed. */

import { Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { api, body } from "../../api/client";
import { clusterQuery, clustersQuery } from "../../api/queries";
import type { Cluster } from "../../api/schema";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { visible } from "../../ui/UserText";

interface Props {
  act: "pause" | "resume";
  cluster: Cluster;
  close: () => void;
}

export function PauseDialog({ act, cluster, close }: Props) {
  const queries = useQueryClient();
  const name = visible(cluster.name || cluster.id);
  const change = async () => {
    const params = { path: { cluster_id: cluster.id } };
    const state = act === "pause" ? "paused" : "active";
    const changed = await body(api.PATCH("/v1/clusters/{cluster_id}", { params, body: { state } }));
    queries.setQueryData(clustersQuery.queryKey, (list) =>
      list === undefined
        ? list
        : { ...list, clusters: list.clusters.map((each) => (each.id === changed.id ? { ...each, state: changed.state } : each)) },
    );
    await queries.invalidateQueries({ queryKey: clusterQuery(cluster.id).queryKey });
  };
  return (
    <Confirm
      opened
      close={close}
      title={text(`people.clusters.${act}`)}
      verb={text(`people.clusters.${act}_name`, { name })}
      act={change}
      dangerous={act === "pause"}
    >
      <Text>{text(`people.clusters.${act}_details`, { name })}</Text>
    </Confirm>
  );
}
