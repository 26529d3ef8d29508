/** What workers cost on each day: for jobs, while they booted, and while they were idle. */

import { Group, Text, Title } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { CostsChart } from "../money/CostsChart";
import { dayOf, preset } from "../money/period";
import { costsQuery } from "../money/queries";
import { text } from "../texts";
import { exact, percent, short } from "../ui/format";
import { useNow } from "../ui/useNow";
import { sharesOf, wholePercents } from "./shares";
import classes from "./fleet.module.css";
import { RefreshButton } from "../ui/RefreshButton";

export function UseSection({ cluster }: { cluster: string }) {
  const today = dayOf(useNow());
  const period = useMemo(() => preset("days30", Date.parse(`${today}T12:00:00Z`)), [today]);
  // The chart reads the same: it is one request.
  const costs = useInfiniteQuery(costsQuery(cluster, period, ["day"]));
  const pages = costs.data?.pages;
  const shares = useMemo(() => {
    const exactly = sharesOf(pages?.flatMap(({ rows }) => rows) ?? []);
    return exactly === null ? null : wholePercents(exactly);
  }, [pages]);
  const asOf = pages?.[0]?.as_of;
  return (
    <section className={classes.section} aria-label={text("fleet.use.title")}>
      <Group justify="space-between" mb={6}>
        <Title order={2} fz="lg">
          {text("fleet.use.title")}
        </Title>
        <Group gap="xs">
          {asOf === undefined ? null : (
            <Text size="sm" c="dimmed" title={exact(new Date(asOf))}>
              {text("money.as_of", { time: short(new Date(asOf)) })}
            </Text>
          )}
          <RefreshButton size="xs" busy={costs.isFetching} refresh={() => void costs.refetch()}>
            {text("fleet.use.read_again")}
          </RefreshButton>
        </Group>
      </Group>
      <Text size="sm" mb={6}>
        {shares === null ? "\u00a0" : (["job", "boot", "idle", "unattributed"] as const)
              .filter((purpose) => purpose !== "unattributed" || shares[purpose] > 0)
              .map((purpose) => text(`fleet.use.${purpose}`, { share: percent(shares[purpose] / 100) }))
              .join(", ")}
      </Text>
      <CostsChart cluster={cluster} period={period} by="day" />
      <Text size="xs" c="dimmed">
        {text("fleet.use.hint")}
      </Text>
    </section>
  );
}
