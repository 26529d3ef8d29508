/**
 * Amounts by kind over time, on top of each other: a picture, its legend with the values at the pointer, and the same
 * numbers as a table. Each kind has a pattern, too.
 */

import { useComputedColorScheme } from "@mantine/core";
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { text } from "../../texts";
import { DataTable, type Column } from "../tables/DataTable";
import { fill } from "./patterns";
import type { ChartSeries } from "./stack";
import classes from "./StackedChart.module.css";
import { TableBox } from "../tables/TableBox";
import type { PlotProps } from "./StackedPlot";

const StackedPlot = lazy(() => import("./StackedPlot"));

interface Props extends Omit<PlotProps, "onHover"> {
  /** What the chart shows, for everybody who does not see it. */
  label: string;
  /** What the chart shows at its end, in a sentence. */
  summary: string;
  time: (moment: number) => string;
}

export function StackedChart({ label, summary, time, ...plot }: Props) {
  const [hovered, setHovered] = useState<number | null>(null);
  const { times, series, line, format } = plot;
  const at = hovered ?? times.length - 1;
  const shown = line === undefined ? series : [...series, line];
  return (
    <figure className={classes.figure} aria-label={label}>
      <div role="img" aria-label={`${label}. ${summary}`}>
        <Suspense fallback={<div className={classes.place} />}>
          <StackedPlot {...plot} onHover={setHovered} />
        </Suspense>
      </div>
      <figcaption>
        <ul className={classes.legend} aria-label={text("ui.chart.legend", { time: times[at] === undefined ? "" : time(times[at]) })}>
          <li aria-hidden className="number">
            {times[at] === undefined ? "" : time(times[at])}
          </li>
          {shown.map((each, index) => (
            <li key={each.id}>
              {each === line ? <span className={classes.dash} aria-hidden /> : <Swatch index={index} />}
              <span>{each.label}</span>
              <span className="number">{valueOf(each, at, format)}</span>
            </li>
          ))}
        </ul>
      </figcaption>
      <Numbers label={label} times={times} series={shown} format={format} time={time} />
    </figure>
  );
}

function valueOf(series: ChartSeries, at: number, format: (value: number) => string): string {
  const value = series.values[at] ?? null;
  return value === null ? text("ui.chart.unknown") : format(value);
}

/** The colour and the pattern of a series. */
function Swatch({ index }: { index: number }) {
  const scheme = useComputedColorScheme();
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current?.getContext("2d") ?? null;
    if (context === null) return;
    context.fillStyle = fill(index);
    context.fillRect(0, 0, 32, 32);
  }, [index, scheme]);
  return <canvas ref={canvas} width={32} height={32} className={classes.swatch} aria-hidden />;
}

interface NumbersProps {
  label: string;
  times: readonly number[];
  series: readonly ChartSeries[];
  format: (value: number) => string;
  time: (moment: number) => string;
}

/** The numbers of the chart, the newest first. */
function Numbers({ label, times, series, format, time }: NumbersProps) {
  const [opened, setOpened] = useState(false);
  const rows = useMemo(() => (opened ? times.map((_time, at) => ({ at })).toReversed() : []), [opened, times]);
  const columns: Column<{ at: number }>[] = useMemo(
    () => [
      { id: "time", head: text("ui.chart.time"), width: "minmax(160px, 1fr)", cell: ({ at }) => time(times[at] ?? 0) },
      ...series.map((each) => ({
        id: each.id,
        head: each.label,
        width: "minmax(110px, 1fr)",
        numeric: true,
        cell: ({ at }: { at: number }) => valueOf(each, at, format),
      })),
    ],
    [series, times, format, time],
  );
  return (
    <details onToggle={(event) => setOpened(event.currentTarget.open)}>
      <summary className={classes.summary}>{text("ui.chart.numbers")}</summary>
      {opened ? (
        <TableBox rows={rows.length}>
          <DataTable label={label} rows={rows} columns={columns} rowId={({ at }) => String(at)} />
        </TableBox>
      ) : null}
    </details>
  );
}
