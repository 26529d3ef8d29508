/** The picture of a stacked chart, by uPlot. Only `StackedChart` loads it: the library is not part of the first page. */

import { useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { utcDate } from "../format";
import { painted, token } from "./patterns";
import { stacked, type ChartSeries, type ChartValues } from "./stack";
import { timeTicks } from "./timeTicks";

export interface PlotProps {
  /** Milliseconds since the epoch, ascending. */
  times: readonly number[];
  /** From the bottom to the top. */
  series: readonly ChartSeries[];
  /** A dashed line that is not part of the stack. */
  line?: ChartValues | undefined;
  /** Bars of days in UTC in place of steps over time. */
  bars?: boolean | undefined;
  /** Values are whole numbers. */
  whole?: boolean | undefined;
  format: (value: number) => string;
  /** The moment that is marked in place of the one at the pointer. */
  at: number | null;
  onHover: (index: number | null) => void;
  onMoment?: ((time: number) => void) | undefined;
}

const HEIGHT = 220;
const AXIS_WIDTH = 76;
const CHARACTER_WIDTH = 7;
/** The least distance of two times on the axis: `12:45 PM` and a gap. */
const TIME_SPACE = 80;
const WHOLE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000];

export default function StackedPlot(props: PlotProps) {
  const { ref, width } = useElementSize<HTMLDivElement>();
  const host = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme();
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  // The chart is made again only when its series or their fills are others: new values are set into it.
  const shape = JSON.stringify([props.series.map(({ id, fill }) => [id, fill]), props.line?.id, props.bars, props.whole]);
  useEffect(() => {
    if (host.current === null || width === 0) return;
    const made = new uPlot(options(latest, width), data(latest.current), host.current);
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
    // A new width is set into the chart below.
  }, [scheme, shape, width === 0]);
  useEffect(() => plot.current?.setSize({ width, height: HEIGHT }), [width]);
  useEffect(() => plot.current?.setData(data(latest.current)), [props.times, props.series, props.line]);
  const marked = props.at === null ? null : (props.times[props.at] ?? null);
  useEffect(() => {
    if (marked === null || plot.current === null) return undefined;
    const { current } = plot;
    current.setCursor({ left: current.valToPos(marked / 1_000, "x"), top: 0 });
    return () => current.setCursor({ left: -10, top: -10 });
  }, [marked, width]);
  return (
    <div ref={ref}>
      <div ref={host} style={{ minHeight: HEIGHT, cursor: props.onMoment ? "pointer" : "default" }} />
    </div>
  );
}

/** The highest series first: those below it are drawn over it. */
function data({ times, series, line }: PlotProps): uPlot.AlignedData {
  const heights = stacked(series, times.length).toReversed();
  return [times.map((time) => time / 1_000), ...heights, ...(line === undefined ? [] : [[...line.values]])];
}

function options(latest: { current: PlotProps }, width: number): uPlot.Options {
  const { series, line, bars = false, whole = false } = latest.current;
  const paths = bars ? uPlot.paths.bars?.({ size: [0.7, 48] }) : uPlot.paths.stepped?.({ align: 1 });
  const drawn = { ...(paths === undefined ? {} : { paths }), points: { show: false } };
  const axis = {
    stroke: token("--text-quiet"),
    grid: { stroke: token("--line"), width: 1 },
    ticks: { show: false },
    font: "12px 'Inter Variable', system-ui, sans-serif",
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
    ...(bars ? { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC") } : {}),
    scales: {
      x: bars ? { range: (_plot: uPlot, from: number, to: number) => [from - 43_200, to + 43_200] } : {},
      y: { range: (_plot: uPlot, _from: number | null, to: number | null) => [0, Math.max(to ?? 0, whole ? 1 : 0.000_001) * 1.08] },
    },
    axes: [
      {
        ...axis,
        ...(bars ? {} : { space: TIME_SPACE }),
        values: bars
          ? (_plot, splits) => splits.map((seconds) => utcDate(new Date(seconds * 1_000)))
          : (_plot, splits, _axis, _space, step) => timeTicks(splits, step),
      },
      {
        ...axis,
        size: (_plot, labels) => axisWidth(labels),
        values: (_plot, values) => values.map((value) => latest.current.format(value)),
        ...(whole ? { incrs: WHOLE_STEPS } : {}),
      },
    ],
    series: [
      {},
      ...series.toReversed().map(({ fill }) => ({
        ...drawn,
        fill: painted(fill) as string,
        stroke: token("--surface"),
        width: 1,
      })),
      ...(line === undefined ? [] : [{ ...drawn, stroke: token("--text-strong"), width: 1.5, dash: [6, 4] }]),
    ],
    hooks: {
      setCursor: [(plot) => latest.current.onHover(plot.cursor.idx ?? null)],
      ready: [(plot) => plot.over.addEventListener("click", () => clicked(plot, latest.current))],
    },
  };
}

/** The room of the labels of an axis, in pixels: small amounts of money have many digits. */
function axisWidth(labels: readonly string[] | null): number {
  const longest = Math.max(0, ...(labels ?? []).map((label) => label.length));
  return Math.max(AXIS_WIDTH, 20 + longest * CHARACTER_WIDTH);
}

function clicked(plot: uPlot, { onMoment }: PlotProps): void {
  const { left } = plot.cursor;
  if (left !== undefined && left >= 0) onMoment?.(plot.posToVal(left, "x") * 1_000);
}
