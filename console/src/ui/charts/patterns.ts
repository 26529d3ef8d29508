/** Draws the fills of charts: their colours and patterns in the present theme. */

import type { Fill, Pattern } from "./fills";

const TILE = 8;

type Draw = (context: CanvasRenderingContext2D) => void;

const PATTERNS: Record<Pattern, Draw> = {
  slant: (context) => line(context, [0, TILE, TILE, 0], [-2, 2, 2, -2], [TILE - 2, TILE + 2, TILE + 2, TILE - 2]),
  backslant: (context) => line(context, [0, 0, TILE, TILE], [-2, TILE - 2, 2, TILE + 2], [TILE - 2, -2, TILE + 2, 2]),
  rows: (context) => line(context, [0, 4, TILE, 4]),
  columns: (context) => line(context, [4, 0, 4, TILE]),
  dots: (context) => context.fillRect(2, 2, 3, 3),
  grid: (context) => line(context, [4, 0, 4, TILE], [0, 4, TILE, 4]),
  cross: (context) => line(context, [0, 0, TILE, TILE], [0, TILE, TILE, 0]),
};

/** The value of a token, such as `--line`, in the present theme. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** What a canvas is filled with. The tile is opaque: what is drawn first is hidden by what is above. */
export function painted(fill: Fill): CanvasPattern | string {
  const colour = token(fill.colour);
  const scale = window.devicePixelRatio || 1;
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(TILE * scale);
  const context = tile.getContext("2d");
  if (context === null) return colour;
  context.scale(tile.width / TILE, tile.height / TILE);
  context.fillStyle = colour;
  context.fillRect(0, 0, TILE, TILE);
  context.fillStyle = context.strokeStyle = token("--surface");
  context.globalAlpha = 0.6;
  context.lineWidth = 1.25;
  for (const pattern of fill.patterns) PATTERNS[pattern](context);
  return context.createPattern(tile, "repeat") ?? colour;
}

function line(context: CanvasRenderingContext2D, ...lines: [number, number, number, number][]): void {
  context.beginPath();
  for (const [fromX, fromY, toX, toY] of lines) {
    context.moveTo(fromX, fromY);
    context.lineTo(toX, toY);
  }
  context.stroke();
}
