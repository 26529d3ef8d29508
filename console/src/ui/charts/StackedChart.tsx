/**
 * Amounts by kind over time, on top of each other: a picture, its legend with the values at the pointer, and the same
 * numbers as a table. What each kind is filled with is the same in all charts.
 */

import { useComputedColorScheme } from "@mantine/core";
import { lazy, Suspense, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { text } from "../../texts";
import { DataTable, type Column } from "../tables/DataTable";
import { indexAt, movedBy } from "./moments";
import type { Fill } from "./fills";
import { painted } from "./patterns";
import type { ChartValues } from "./stack";
import classes from "./StackedChart.module.css";
import { TableBox } from "../tables/TableBox";
import type { PlotProps } from "./StackedPlot";

const StackedPlot = lazy(() => import("./StackedPlot"));

interface Props extends Omit<PlotProps, "onHover" | "at"> {
  /** What the chart shows, for everybody who does not see it. */
  label: string;
  /** What the chart shows at its end, in a sentence. */
  summary: string;
  time: (moment: number) => string;
  /** The id of what says what Enter and a click do. */
  hint?: string;
}

export function StackedChart({ label, summary, time, hint, ...plot }: Props) {
  const [hovered, setHovered] = useState<number | null>(null);
  /** The moment that the keys have led to, while the chart has the focus. */
  const [moved, setMoved] = useState<number | null>(null);
  const { times, series, line, format, onMoment } = plot;
  const key = moved === null ? null : indexAt(times, moved);
  const at = key ?? hovered ?? times.length - 1;
  const shown: readonly ChartValues[] = line === undefined ? series : [...series, line];
  const picture = (
    <Suspense fallback={<div className={classes.place} />}>
      <StackedPlot {...plot} at={key} onHover={setHovered} />
    </Suspense>
  );
  return (
    <figure className={classes.figure} aria-label={label}>
      {onMoment === undefined ? (
        <div role="img" aria-label={`${label}. ${summary}`}>
          {picture}
        </div>
      ) : (
        <Moments label={label} hint={hint} times={times} at={at} values={valuesAt({ times, series: shown, format, time }, at)} move={setMoved} open={onMoment}>
          {picture}
        </Moments>
      )}
      <figcaption>
        <ul className={classes.legend} aria-label={text("ui.chart.legend", { time: times[at] === undefined ? "" : time(times[at]) })}>
          <li aria-hidden className="number">
            {times[at] === undefined ? "" : time(times[at])}
          </li>
          {shown.map((each, index) => (
            <li key={each.id}>
              {index < series.length ? <Swatch fill={series[index]?.fill} /> : <span className={classes.dash} aria-hidden />}
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

interface MomentsProps {
  label: string;
  hint: string | undefined;
  times: readonly number[];
  at: number;
  /** What the chart shows at this moment, in words. */
  values: string;
  move: (moment: number | null) => void;
  open: (moment: number) => void;
  children: ReactNode;
}

/** A picture of which each moment can be reached and opened by keys. */
function Moments({ label, hint, times, at, values, move, open, children }: MomentsProps) {
  function pressed(event: KeyboardEvent) {
    const moment = times[at];
    const next = movedBy(event.key, at, times.length - 1);
    if (next !== null) move(times[next] ?? null);
    else if (event.key === "Enter" && moment !== undefined) open(moment);
    else return;
    event.preventDefault();
  }
  return (
    <div
      role="slider"
      tabIndex={0}
      className={classes.moments}
      aria-label={label}
      aria-describedby={hint}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, times.length - 1)}
      aria-valuenow={Math.max(0, at)}
      aria-valuetext={values}
      onKeyDown={pressed}
      onBlur={() => move(null)}
      onPointerMove={() => move(null)}
    >
      {children}
    </div>
  );
}

function valuesAt({ times, series, format, time }: Omit<NumbersProps, "label">, at: number): string {
  const moment = times[at];
  const values = series.map((each) => text("ui.chart.value", { name: each.label, value: valueOf(each, at, format) }));
  return [...(moment === undefined ? [] : [time(moment)]), ...values].join(", ");
}

function valueOf(series: ChartValues, at: number, format: (value: number) => string): string {
  const value = series.values[at] ?? null;
  return value === null ? text("ui.chart.unknown") : format(value);
}

/** The colour and the pattern of a series. */
function Swatch({ fill }: { fill: Fill | undefined }) {
  const scheme = useComputedColorScheme();
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current?.getContext("2d") ?? null;
    if (context === null || fill === undefined) return;
    context.fillStyle = painted(fill);
    context.fillRect(0, 0, 32, 32);
  }, [fill, scheme]);
  return <canvas ref={canvas} width={32} height={32} className={classes.swatch} aria-hidden />;
}

interface NumbersProps {
  label: string;
  times: readonly number[];
  series: readonly ChartValues[];
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
