/** The page of a cluster; in its place what stops the person, where there is no cluster or they are nobody on it. */

import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useMatches } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ProblemError } from "../../api/problem";
import { clustersQuery } from "../../api/queries";
import { text } from "../../texts";
import { Empty } from "../../ui/Empty";
import { UserText, visible } from "../../ui/UserText";
import { Page } from "../../ui/Page";
import { NO_CLUSTER } from "../rootRoute";
import { useIsAdmin } from "../useIsAdmin";

interface Props {
  cluster: string;
  /** Why the cluster cannot be read. */
  error: Error | null;
}

export function ClusterGate({ cluster, error }: Props) {
  const open = useMatches({ select: (matches) => matches.some(({ staticData }) => staticData.needsNoCluster === true) });
  if (open) return <Outlet />;
  const stop = stopOf(cluster, error);
  return stop === null ? <Outlet /> : <Page title={text("app.cluster")}>{stop}</Page>;
}

function stopOf(cluster: string, error: Error | null): ReactNode {
  if (cluster === NO_CLUSTER) return <NoCluster />;
  if (!(error instanceof ProblemError)) return null;
  if (error.status === 404) {
    return (
      <Empty title={text("app.gate.missing", { cluster: visible(cluster) })} action={<Clusters />}>
        {text("app.gate.missing_details")}
      </Empty>
    );
  }
  return error.status === 403 ? <Nobody error={error} /> : null;
}

function NoCluster() {
  const { data } = useQuery(clustersQuery);
  const manages = useIsAdmin();
  if (data === undefined) return null;
  if (data.clusters.length > 0) {
    return (
      <Empty title={text("app.gate.choose")} action={<Clusters />}>
        {text("app.gate.choose_details")}
      </Empty>
    );
  }
  return (
    <Empty title={text("app.gate.none")} action={manages ? <ToAdmin /> : null}>
      {text(manages ? "app.gate.none_admin" : "app.gate.none_details")}
    </Empty>
  );
}

function Nobody({ error }: { error: ProblemError }) {
  const manages = useIsAdmin();
  const why = [error.problem.detail, error.problem.hint ?? ""].filter(Boolean).join(". ");
  return (
    <Empty
      title={text("app.gate.nobody")}
      action={
        <Group gap="xs" justify="center">
          <Button variant="default" onClick={() => location.reload()}>
            {text("ui.retry")}
          </Button>
          {manages ? <ToAdmin /> : null}
          <Clusters />
        </Group>
      }
    >
      <UserText>{why}</UserText>
    </Empty>
  );
}

function ToAdmin() {
  return (
    <Link to="/c/$cluster/admin" params={{ cluster: NO_CLUSTER }}>
      {text("app.gate.admin")}
    </Link>
  );
}

/** The clusters that there are, to go to. */
function Clusters() {
  const { data } = useQuery(clustersQuery);
  return (
    <Group component="ul" gap="md" justify="center" p={0} m={0} style={{ listStyle: "none" }}>
      {data?.clusters.map(({ id, name }) => (
        <li key={id}>
          <Link to="/c/$cluster" params={{ cluster: id }}>
            <UserText>{name || id}</UserText>
          </Link>
        </li>
      ))}
    </Group>
  );
}
