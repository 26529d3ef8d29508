/** The fleet now in figures: how many workers, what they cost in an hour, and how many of them do nothing. */

import type { ClusterDetail, ShapeCount, ShapeWorkers, Workers } from "../api/schema";
import { text } from "../texts";
import { sum } from "../ui/decimal";
import { Figure, Figures } from "../ui/Figures";
import { count, money, percent } from "../ui/format";
import { Moment } from "../ui/Moment";
import type { Decision } from "./decisions";

interface Props {
  cluster: ClusterDetail | undefined;
  workers: Workers | undefined;
  counts: readonly ShapeCount[] | undefined;
  /** Undefined while it is read; null where there is none. */
  decision: Decision | null | undefined;
  /** Others see no decisions. */
  admin: boolean;
}

export function FleetFigures({ cluster, workers, counts, decision, admin }: Props) {
  const shapes = workers?.shapes;
  const live = workers === undefined ? undefined : workers.workers === null ? null : total(shapes, ({ workers: each }) => each);
  const unpriced = total(shapes, (shape) => shape.unpriced) ?? 0;
  const wanted = counts?.every(({ desired }) => desired !== null) ? counts.reduce((all, { desired }) => all + (desired ?? 0), 0) : null;
  const inUse = live && cluster ? text("fleet.figure.limit_share", { share: percent(live / Math.max(1, cluster.max_workers)) }) : null;
  return (
    <Figures label={text("fleet.figure.label")}>
      <Figure
        label={text("fleet.figure.workers")}
        value={shown(live)}
        note={wanted === null ? null : text("fleet.figure.wanted", { desired: count(wanted) })}
      />
      <Figure
        label={text("fleet.figure.cost")}
        value={live === undefined ? undefined : live === null || (live > 0 && unpriced === live) ? null : money(Number(sum((shapes ?? []).map((each) => each.usd_per_hour))))}
        note={unpriced > 0 ? text("fleet.figure.unpriced", { count: unpriced, workers: count(unpriced) }) : null}
      />
      <StateFigure state="idle" live={live} workers={workers} />
      <StateFigure state="booting" live={live} workers={workers} />
      <Figure label={text("fleet.figure.limit")} value={cluster === undefined ? undefined : count(cluster.max_workers)} note={inUse} />
      {admin ? (
        <Figure
          label={text("fleet.figure.decided")}
          value={decision === undefined ? undefined : decision === null ? <Moment at={null} /> : <Moment at={decision.at} />}
        />
      ) : null}
    </Figures>
  );
}

interface StateProps {
  state: "idle" | "booting";
  live: number | null | undefined;
  workers: Workers | undefined;
}

function StateFigure({ state, live, workers }: StateProps) {
  const known = workers !== undefined && workers.workers !== null && (workers.queue_as_of !== null || live === 0);
  const found = known ? total(workers.shapes, ({ by_state }) => by_state[state] ?? 0) : null;
  const note = !known && workers !== undefined ? text("fleet.figure.queue_unknown") : live ? text("fleet.figure.share", { share: percent((found ?? 0) / live) }) : null;
  return <Figure label={text(`fleet.figure.${state}`)} value={workers === undefined ? undefined : shown(found)} note={note} />;
}

function total(shapes: readonly ShapeWorkers[] | undefined, of: (shape: ShapeWorkers) => number): number | null {
  return shapes === undefined ? null : shapes.reduce((all, shape) => all + of(shape), 0);
}

function shown(value: number | null | undefined): string | null | undefined {
  return value === undefined || value === null ? value : count(value);
}
