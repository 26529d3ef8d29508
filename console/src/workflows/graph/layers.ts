/** The drawing of steps: each in a layer behind those that it depends on, by the longest way to it. Pure. */

export interface Step {
  step_id: string;
  depends_on: readonly string[];
}

export interface Place {
  id: string;
  layer: number;
  /** Within its layer. */
  row: number;
}

export interface Edge {
  from: Place;
  to: Place;
}

export interface Drawing {
  places: Place[];
  edges: Edge[];
  layers: number;
  /** The most steps in one layer. */
  rows: number;
}

/** Where each step is drawn, in the steps' order within a layer. Dependencies on steps that are not there are left out. */
export function drawing(steps: readonly Step[]): Drawing {
  const layers = longestWays(steps);
  const rowsOf = new Map<number, number>();
  const places = new Map<string, Place>();
  for (const { step_id: id } of steps) {
    const layer = layers.get(id) ?? 0;
    const row = rowsOf.get(layer) ?? 0;
    rowsOf.set(layer, row + 1);
    places.set(id, { id, layer, row });
  }
  const edges: Edge[] = [];
  for (const step of steps) {
    const to = places.get(step.step_id);
    for (const before of new Set(step.depends_on)) {
      const from = places.get(before);
      if (from !== undefined && to !== undefined && from.layer < to.layer) edges.push({ from, to });
    }
  }
  return { places: [...places.values()], edges, layers: rowsOf.size, rows: Math.max(0, ...rowsOf.values()) };
}

/** For each step the most steps that are on a way to it. Steps that wait for each other, which no run has, are in layer 0. */
function longestWays(steps: readonly Step[]): Map<string, number> {
  const known = new Set(steps.map((step) => step.step_id));
  const done = new Map<string, number>();
  let left = [...steps];
  while (left.length > 0) {
    const ready = left.filter((step) => step.depends_on.every((id) => done.has(id) || !known.has(id)));
    if (ready.length === 0) break;
    const found = ready.map((step) => {
      const before = step.depends_on.map((id) => done.get(id) ?? -1);
      return [step.step_id, Math.max(-1, ...before) + 1] as const;
    });
    for (const [id, layer] of found) done.set(id, layer);
    left = left.filter((step) => !done.has(step.step_id));
  }
  return done;
}
