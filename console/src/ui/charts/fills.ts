/** Which colour and pattern stands for what, in all charts: for a use of workers, a shape, or a name. */

/** What is drawn over a colour, so that the colour is never alone. */
export type Pattern = "slant" | "backslant" | "rows" | "columns" | "dots" | "grid" | "cross";

export interface Fill {
  /** A token of the theme, such as `--chart-1`. */
  colour: string;
  patterns: readonly Pattern[];
}

/** What a worker's time or cost is for. */
export type Use = "busy" | "booting" | "idle" | "unattributed";

const USES: Record<Use, Fill> = {
  busy: { colour: "--use-busy", patterns: [] },
  booting: { colour: "--use-booting", patterns: ["slant"] },
  idle: { colour: "--use-idle", patterns: ["backslant"] },
  unattributed: { colour: "--use-unattributed", patterns: ["rows"] },
};

/** All that a chart has no room for. */
export const OTHERS: Fill = { colour: "--use-unattributed", patterns: ["columns"] };

const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5", "--chart-6", "--chart-7"] as const;
/** Names have the cost of jobs, and stand beside the other uses. */
const COLOURS_OF_NAMES = ["--chart-1", "--chart-3", "--chart-5", "--chart-6", "--chart-7"] as const;
/** Of the first shapes, of those after them that have the same colours, and so on. No use has them. */
const ROUNDS: readonly (readonly Pattern[])[] = [[], ["dots"], ["grid"], ["cross"]];

export function fillOfUse(use: Use): Fill {
  return USES[use];
}

/**
 * The fill of a shape, which follows from its place among all shapes of the cluster, whichever of them a chart has. The
 * cost of a shape that is for no job has the pattern of its use, too.
 */
export function fillOfShape(shape: string, shapes: readonly string[], use: Use = "busy"): Fill {
  const known = shapes.indexOf(shape);
  // A shape that the cluster had earlier: its name alone places it.
  const { colour, patterns } = placed(known === -1 ? shapes.length + hash(shape) : known, COLOURS);
  return { colour, patterns: [...patterns, ...USES[use].patterns] };
}

/** The fill of a name, such as a user's, by its place among those of the chart. */
export function fillOfName(place: number): Fill {
  return placed(place, COLOURS_OF_NAMES);
}

function placed(place: number, colours: readonly string[]): Fill {
  return { colour: colours[place % colours.length] as string, patterns: ROUNDS[Math.floor(place / colours.length) % ROUNDS.length] as readonly Pattern[] };
}

function hash(word: string): number {
  let value = 0;
  for (const character of word) value = (value * 31 + (character.codePointAt(0) as number)) % 65_521;
  return value;
}
