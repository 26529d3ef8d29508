/** The workers by shape over time. A click on a moment, or Enter at it, opens the decision of that moment. */

import { Skeleton, Text } from "@mantine/core";
import { useMemo } from "react";
import type { Fleet } from "../../api/schema";
import { useLiveStatus } from "../../live/useLive";
import { text } from "../../texts";
import { Empty } from "../../ui/Empty";
import { clockInZone, count, short } from "../../ui/format";
import { fillOfShape, OTHERS } from "../../ui/charts/fills";
import { largest, type ChartSeries, type ChartValues } from "../../ui/charts/stack";
import { StackedChart } from "../../ui/charts/StackedChart";
import { useMinute } from "../../ui/useNow";
import { LENGTHS, type Range } from "../queries";
import { fleetSeries, from, withUpdate } from "./series";

const MOST_SHAPES = 8;

interface Props {
  fleet: Fleet | undefined;
  /** All shapes of the cluster; undefined while they are read. */
  shapes: readonly string[] | undefined;
  range: Range;
  open: (moment: string) => void;
  /** The id of the words that say so. */
  hint: string;
}

export function FleetChart({ fleet, shapes, range, open, hint }: Props) {
  const minute = useMinute();
  const live = useLiveStatus().state === "live";
  // What no event has changed is still so, as long as events come.
  const shown = useMemo(
    () => (fleet === undefined || !live ? fleet : from(withUpdate(fleet, { at: new Date(minute).toISOString(), counts: [] }), minute - LENGTHS[range])),
    [fleet, live, minute, range],
  );
  const time = range === "1h" ? clockAt : shortAt;
  const { times, series, line, summary } = useMemo(() => drawn(shown, shapes ?? [], time), [shown, shapes, time]);
  if (fleet === undefined || shapes === undefined) return <Skeleton height={220} radius={0} role="status" aria-label={text("ui.loading")} />;
  return (
    <>
      {fleet.complete ? null : (
        <Text size="sm" c="dimmed">
          {text("fleet.chart.cut", { time: shortAt(Date.parse(fleet.after)) })}
        </Text>
      )}
      {series.length === 0 ? (
        <Empty title={text("fleet.chart.none")}>{text("fleet.chart.none_details")}</Empty>
      ) : (
        <StackedChart
          label={text("fleet.chart.label", { range: text(`fleet.range.${range}`) })}
          summary={summary}
          times={times}
          series={series}
          line={line}
          whole
          format={count}
          time={time}
          hint={hint}
          onMoment={(moment) => open(new Date(moment).toISOString())}
        />
      )}
    </>
  );
}

function shortAt(moment: number): string {
  return short(new Date(moment));
}

function clockAt(moment: number): string {
  return clockInZone(new Date(moment));
}

function drawn(fleet: Fleet | undefined, shapes: readonly string[], time: (moment: number) => string) {
  const { times, live, desired } = fleet === undefined ? { times: [], live: [], desired: [] } : fleetSeries(fleet);
  const series = largest(live.map((each) => ({ ...each, fill: fillOfShape(each.id, shapes) })), MOST_SHAPES, peak, (rest) => together(rest, times.length));
  const line = { id: "desired", label: text("fleet.chart.desired"), values: desired };
  const now = live.reduce((sum, { values }) => sum + (values.at(-1) ?? 0), 0);
  const wanted = desired.at(-1) ?? null;
  const summary = text("fleet.chart.summary", {
    live: count(now),
    desired: wanted === null ? text("ui.chart.unknown") : count(wanted),
    time: times.length === 0 ? "" : time(times.at(-1) ?? 0),
  });
  return { times, series, line, summary };
}

function peak({ values }: ChartValues): number {
  return values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
}

function together(rest: readonly ChartSeries[], moments: number): ChartSeries {
  const values = Array.from({ length: moments }, (_, index) => {
    const known = rest.map((each) => each.values[index] ?? null).filter((value) => value !== null);
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
  });
  return { id: "others", label: text("fleet.chart.others", { count: rest.length, shapes: count(rest.length) }), values, fill: OTHERS };
}
