/** The bar above all pages: tenant and cluster, the palette, whether what is shown is live, and the person. */

import { Group, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { clustersQuery } from "../../api/queries";
import { useLiveRefetch } from "../../live/useLive";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";
import classes from "./Bar.module.css";
import { PausedMark } from "./PausedCluster";
import { LiveMark } from "./LiveMark";
import { pageOf } from "../pages";
import { PaletteButton } from "../palette/PaletteButton";
import { UserMenu } from "./UserMenu";
import { NO_CLUSTER } from "../rootRoute";
import { TenantChoice } from "./TenantChoice";

interface Props {
  cluster: string;
  /** Whether there is a stream of the cluster to follow. */
  followed: boolean;
}

export function Bar({ cluster, followed }: Props) {
  return (
    <header className={classes.bar}>
      <Group gap="xs" wrap="nowrap" miw={0}>
        <TenantChoice />
        <ClusterChoice cluster={cluster} />
      </Group>
      <PaletteButton cluster={cluster} />
      <Group gap="sm" wrap="nowrap">
        <PausedMark cluster={cluster} />
        {followed ? <LiveMark /> : null}
        <UserMenu cluster={cluster} />
      </Group>
    </header>
  );
}

/** The clusters of the tenant. Another one is shown on the same page. */
function ClusterChoice({ cluster }: { cluster: string }) {
  const { data, refetch } = useQuery(clustersQuery);
  useLiveRefetch(["cluster."], refetch);
  const navigate = useNavigate();
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const known = (data?.clusters ?? []).map(({ id, name }) => ({ value: id, label: visible(name || id) }));
  if (known.length === 0 && cluster === NO_CLUSTER) return null;
  const missing = known.some(({ value }) => value === cluster) ? [] : [{ value: cluster, label: shown(cluster) }];
  return (
    <NativeSelect
      className={classes.cluster}
      aria-label={text("app.cluster")}
      data={[...missing, ...known]}
      value={cluster}
      onChange={(event) => void navigate({ to: pageOf(path), params: { cluster: event.currentTarget.value } })}
    />
  );
}

function shown(cluster: string): string {
  return cluster === NO_CLUSTER ? text("app.no_cluster") : visible(cluster);
}
