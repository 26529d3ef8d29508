/** What each day cost, by what the table has rows of. */

import { Skeleton, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { readNextPage, retryPages } from "../api/nextPage";
import type { CostEntry } from "../api/schema";
import { useShapes } from "../app/useShapes";
import { text } from "../texts";
import { Empty } from "../ui/Empty";
import { visible } from "../ui/UserText";
import { count, money } from "../ui/format";
import { ProblemView } from "../ui/ProblemView";
import { StackedChart } from "../ui/charts/StackedChart";
import { dayCosts, type By } from "./byDay";
import { days, type Period } from "./period";
import { costsQuery } from "./queries";
import { withFills } from "./seriesFills";

const MOST_SERIES = 8;

interface Props {
  cluster: string;
  period: Period;
  by: By;
}

export function CostsChart({ cluster, period, by }: Props) {
  // Jobs and workers are too many for a picture.
  const apart = by === "user" || by === "account" || by === "template" || by === "shape" ? by : null;
  const costs = useInfiniteQuery(costsQuery(cluster, period, apart === null ? ["day"] : ["day", apart]));
  useEffect(() => readNextPage(costs));
  const all = useMemo(() => days(period), [period.from, period.until]);
  const pages = costs.data?.pages;
  const shapes = useShapes(cluster, apart === "shape");
  const series = useMemo(() => {
    const names = { of: (entry: CostEntry) => named(entry, apart), others: (rows: number) => text("money.chart.others", { count: rows, rows: count(rows) }) };
    return withFills(dayCosts(pages?.flatMap(({ rows }) => rows) ?? [], all, names, MOST_SERIES).series, apart, shapes ?? []);
  }, [pages, all, apart, shapes]);
  const times = useMemo(() => all.map((day) => Date.parse(`${day}T00:00:00Z`)), [all]);
  if (costs.isError) return <ProblemView error={costs.error} retry={() => retryPages(costs)} />;
  if (pages === undefined || shapes === undefined) return <Skeleton height={220} radius={0} role="status" aria-label={text("ui.loading")} />;
  if (series.length === 0) return <Empty title={text("money.chart.none")}>{text("money.chart.none_details")}</Empty>;
  const bill = pages[0]?.bill;
  return (
    <>
      <StackedChart
        label={text("money.chart.label", { from: period.from, until: period.until })}
        summary={text("money.chart.summary", { bill: bill === undefined ? text("money.unknown") : money(Number(bill.amount), bill.currency) })}
        times={times}
        series={series}
        bars
        format={format}
        time={dayText}
      />
      {pages.at(-1)?.cursor ? (
        <Text size="sm" c="dimmed">
          {text("money.chart.cut")}
        </Text>
      ) : null}
    </>
  );
}

function format(value: number): string {
  return money(value);
}

function dayText(moment: number): string {
  return new Date(moment).toISOString().slice(0, 10);
}

function named(entry: CostEntry, by: "user" | "account" | "template" | "shape" | null): string {
  const overhead = entry.purpose === "job" ? null : text(`money.purpose.${entry.purpose}`);
  if (by === "shape" && entry.shape !== null) {
    const shape = visible(entry.shape);
    return overhead === null ? shape : text("money.chart.overhead_of", { shape, overhead });
  }
  if (overhead !== null) return overhead;
  if (by === null || by === "shape") return text("money.chart.jobs");
  return visible(entry[by] ?? text(by === "template" ? "money.no_template" : "money.none_named"));
}
