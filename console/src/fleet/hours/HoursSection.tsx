/** How the time of workers divides in each of the last hours: jobs, booting, idle. */

import { Group, Skeleton, Text, Title } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { text } from "../../texts";
import { Empty } from "../../ui/Empty";
import { exact, percent, short } from "../../ui/format";
import { StackedChart } from "../../ui/charts/StackedChart";
import { ProblemView } from "../../ui/ProblemView";
import { useNow } from "../../ui/useNow";
import { ACTIVITIES, cutAt, hourlyShares, sharesOfTime } from "./hours";
import { fleetHoursQuery, HOUR_MS } from "../queries";
import classes from "../fleet.module.css";
import { RefreshButton } from "../../ui/RefreshButton";

export function HoursSection({ cluster }: { cluster: string }) {
  // No event ends an hour: the page reads when another one has begun.
  const hour = Math.floor(useNow() / HOUR_MS);
  const query = useQuery({ ...fleetHoursQuery(cluster, hour), placeholderData: keepPreviousData });
  const { data } = query;
  const cut = data === undefined ? null : cutAt(data);
  const drawn = useMemo(() => data && hourlyShares(data, (each) => text(`fleet.hours.${each}`)), [data]);
  const shares = useMemo(() => (data === undefined ? null : sharesOfTime(data.hours)), [data]);
  const summary = shares === null ? "" : ACTIVITIES.map((each) => text(`fleet.hours.share_${each}`, { share: percent(shares[each]) })).join(", ");
  return (
    <section className={classes.section} aria-label={text("fleet.hours.title")}>
      <Group justify="space-between" mb={6}>
        <Title order={2} fz="lg">
          {text("fleet.hours.title")}
        </Title>
        <Group gap="xs">
          {data === undefined ? null : (
            <Text size="sm" c="dimmed" title={exact(new Date(data.as_of))}>
              {text("money.as_of", { time: short(new Date(data.as_of)) })}
            </Text>
          )}
          <RefreshButton size="xs" busy={query.isFetching} refresh={() => void query.refetch()}>
            {text("fleet.hours.read_again")}
          </RefreshButton>
        </Group>
      </Group>
      {query.isError ? <ProblemView error={query.error} retry={() => void query.refetch()} /> : null}
      {drawn === undefined ? (
        query.isError ? null : <Skeleton height={220} radius={0} role="status" aria-label={text("ui.loading")} />
      ) : drawn.series.length === 0 ? (
        <Empty title={text("fleet.hours.none")}>{text("fleet.chart.none_details")}</Empty>
      ) : (
        <>
          <Text size="sm" mb={6}>
            {summary}
          </Text>
          <StackedChart label={text("fleet.hours.label")} summary={summary} {...drawn} format={percent} time={(moment) => short(new Date(moment))} />
        </>
      )}
      <Text size="xs" c="dimmed">
        {cut === null ? null : `${text("fleet.hours.cut", { time: short(cut) })} `}
        {text("fleet.hours.hint")}
      </Text>
    </section>
  );
}
