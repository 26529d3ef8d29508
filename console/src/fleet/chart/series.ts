/** The fleet over time as series of a chart, and what events add to it. */

import type { Fleet, FleetChange, ShapeCount } from "../../api/schema";
import type { ChartValues } from "../../ui/charts/stack";
import type { Decision } from "../decisions";

export interface FleetSeries {
  /** Milliseconds since the epoch, ascending: the beginning, each change, and the end. */
  times: number[];
  /** The live workers of each shape. Shapes without any in this time are left out. */
  live: ChartValues[];
  /** How many workers should be there, of all shapes. */
  desired: (number | null)[];
}

/** The numbers at each moment of a fleet. They end with the fleet's `now`. */
export function fleetSeries(fleet: Fleet): FleetSeries {
  const counts = new Map(fleet.before.map((count) => [count.shape, count]));
  const columns: { at: number; counts: Map<string, ShapeCount> }[] = [{ at: Date.parse(fleet.after), counts: new Map(counts) }];
  for (const change of fleet.changes) {
    counts.set(change.shape, change);
    const at = Math.max(Date.parse(change.at), columns.at(-1)?.at ?? 0);
    const last = columns.at(-1);
    // Changes at one moment are one column: the chart has no width for more.
    if (last !== undefined && columns.length > 1 && last.at === at) last.counts = new Map(counts);
    else columns.push({ at, counts: new Map(counts) });
  }
  const end = Math.max(Date.parse(fleet.as_of), columns.at(-1)?.at ?? 0);
  columns.push({ at: end, counts: new Map(fleet.now.map((count) => [count.shape, count])) });
  const shapes = [...new Set(columns.flatMap((column) => [...column.counts.keys()]))].toSorted();
  const live = shapes
    .map((shape) => ({ id: shape, label: shape, values: columns.map((column) => valueOf(column.counts, shape, "live")) }))
    .filter(({ values }) => values.some((value) => value === null || value > 0));
  return {
    times: columns.map(({ at }) => at),
    live,
    desired: columns.map((column) => total(shapes.map((shape) => valueOf(column.counts, shape, "desired")))),
  };
}

/** A shape that is not told of has no workers. */
function valueOf(counts: ReadonlyMap<string, ShapeCount>, shape: string, of: "live" | "desired"): number | null {
  const count = counts.get(shape);
  return count === undefined ? 0 : count[of];
}

/** The sum of what is known; null where nothing is. */
function total(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 && values.length > 0 ? null : known.reduce((sum, value) => sum + value, 0);
}

/** The numbers of some shapes as they were told now. What is not given stays. */
export interface FleetUpdate {
  at: string;
  counts: readonly { shape: string; desired?: number; live?: number }[];
}

/** The most changes that are kept: the oldest ones of a long watch become the beginning. */
const MOST_CHANGES = 10_000;

/** The fleet with what was told since. Numbers are absolute, so that telling them twice changes nothing. */
export function withUpdate<F extends Fleet>(fleet: F, told: FleetUpdate): F {
  const now = new Map(fleet.now.map((count) => [count.shape, count]));
  const added: FleetChange[] = [];
  for (const { shape, ...numbers } of told.counts) {
    const before = now.get(shape) ?? { shape, desired: 0, live: 0 };
    const after = { ...before, ...numbers };
    if (after.desired === before.desired && after.live === before.live && now.has(shape)) continue;
    now.set(shape, after);
    added.push({ ...after, at: told.at });
  }
  const as_of = Date.parse(told.at) > Date.parse(fleet.as_of) ? told.at : fleet.as_of;
  if (added.length === 0) return as_of === fleet.as_of ? fleet : { ...fleet, as_of };
  return cut({ ...fleet, as_of, changes: [...fleet.changes, ...added], now: [...now.values()] });
}

/** The fleet with decisions. Those that it has are left out: it may have been read as of a position before them. */
export function withDecisions<F extends Fleet>(fleet: F, decisions: readonly Decision[]): F {
  const known = new Set(fleet.changes.map(({ at, shape, desired }) => `${Date.parse(at)} ${shape} ${desired}`));
  return decisions.reduce((now, { at, changes }) => {
    const counts = changes
      .filter(({ shape, replicas_after }) => !known.has(`${Date.parse(at)} ${shape} ${replicas_after}`))
      .map(({ shape, replicas_after }) => ({ shape, desired: replicas_after }));
    return counts.length === 0 ? now : withUpdate(now, { at, counts });
  }, fleet);
}

function cut<F extends Fleet>(fleet: F): F {
  const surplus = fleet.changes.length - MOST_CHANGES;
  return surplus <= 0 ? fleet : folded(fleet, surplus, fleet.changes[surplus - 1]?.at ?? fleet.after);
}

/** The fleet from a moment on, in milliseconds since the epoch: what changed before it is the beginning. */
export function from(fleet: Fleet, moment: number): Fleet {
  if (moment <= Date.parse(fleet.after)) return fleet;
  const kept = fleet.changes.findIndex(({ at }) => Date.parse(at) >= moment);
  return folded(fleet, kept === -1 ? fleet.changes.length : kept, new Date(moment).toISOString());
}

/** The fleet without its first changes, which have led to another beginning. */
function folded<F extends Fleet>(fleet: F, changes: number, after: string): F {
  const before = new Map(fleet.before.map((count) => [count.shape, count]));
  for (const { at: _at, ...count } of fleet.changes.slice(0, changes)) before.set(count.shape, count);
  return { ...fleet, after, before: [...before.values()], changes: fleet.changes.slice(changes) };
}
