/** The clusters of the tenant with their health; pausing, resuming, and new agent keys. */

import { Group, List, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { clustersQuery } from "../../api/queries";
import type { Cluster } from "../../api/schema";
import { NO_CLUSTER } from "../../app/rootRoute";
import { text } from "../../texts";
import { Empty } from "../../ui/Empty";
import { UserText, visible } from "../../ui/UserText";
import { Moment } from "../../ui/Moment";
import { ProblemView } from "../../ui/ProblemView";
import { RefreshBar } from "../RefreshBar";
import { RowActions } from "../../ui/tables/RowActions";
import { Rows } from "../Rows";
import { AgentKeyDialog } from "./AgentKeyDialog";
import { ClusterLimits } from "./ClusterLimits";
import { PauseDialog } from "./PauseDialog";

const route = getRouteApi("/c/$cluster/admin/$section");
const HEADS = ["name", "state", "connection", "health"] as const;

interface Asked {
  act: "pause" | "resume" | "key";
  cluster: Cluster;
}

export function ClustersSection() {
  const { cluster: open } = route.useParams();
  const clusters = useQuery(clustersQuery);
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = () => setAsked(null);
  const found = clusters.data?.clusters ?? [];
  return (
    <>
      <RefreshBar query={clusters} />
      {clusters.isError ? <ProblemView error={clusters.error} retry={() => void clusters.refetch()} /> : null}
      {clusters.isSuccess && found.length === 0 ? (
        <Empty title={text("app.gate.none")}>{text("app.gate.none_admin")}</Empty>
      ) : null}
      {found.length > 0 ? (
        <Rows label={text("people.section.clusters")} heads={[...HEADS.map((head) => text(`people.clusters.${head}`)), ""]}>
          {found.map((cluster) => (
            <Table.Tr key={cluster.id}>
              <Table.Td>
                <UserText>{cluster.name || cluster.id}</UserText>
              </Table.Td>
              <Table.Td>
                <State state={cluster.state} />
              </Table.Td>
              <Table.Td>
                <Group gap={6} wrap="nowrap">
                  <span aria-hidden>{cluster.connection_state === "connected" ? "●" : "○"}</span>
                  {text(`people.clusters.${cluster.connection_state}`)}
                </Group>
              </Table.Td>
              <Table.Td>
                <Health cluster={cluster} />
              </Table.Td>
              <Table.Td w={40}>
                <RowActions
                  of={visible(cluster.name || cluster.id)}
                  acts={[
                    ...(cluster.state === "active"
                      ? [{ label: text("people.clusters.pause"), run: () => setAsked({ act: "pause", cluster }), dangerous: true }]
                      : []),
                    ...(cluster.state === "paused"
                      ? [{ label: text("people.clusters.resume"), run: () => setAsked({ act: "resume", cluster }) }]
                      : []),
                    { label: text("people.clusters.key"), run: () => setAsked({ act: "key", cluster }) },
                  ]}
                />
              </Table.Td>
            </Table.Tr>
          ))}
        </Rows>
      ) : null}
      {open === NO_CLUSTER || !found.some(({ id }) => id === open) ? null : <ClusterLimits cluster={open} />}
      {asked?.act === "key" ? <AgentKeyDialog cluster={asked.cluster} close={close} /> : null}
      {asked !== null && asked.act !== "key" ? <PauseDialog act={asked.act} cluster={asked.cluster} close={close} /> : null}
    </>
  );
}

function State({ state }: { state: string }) {
  if (state === "active" || state === "paused" || state === "deleting") return text(`people.clusters.states.${state}`);
  return <UserText>{state}</UserText>;
}

function Health({ cluster }: { cluster: Cluster }) {
  if (cluster.degraded === null) return text("people.clusters.unknown");
  if (cluster.degraded.length === 0) return text("people.clusters.fine");
  return (
    <List size="sm" listStyleType="none">
      {cluster.degraded.map(({ reason, message, since }) => (
        <List.Item key={reason}>
          <UserText>{message || reason}</UserText>{" "}
          <Text span size="xs" c="dimmed">
            <Moment at={since} />
          </Text>
        </List.Item>
      ))}
    </List>
  );
}
