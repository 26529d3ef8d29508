/** A row as pieces of text with their colours. The codes of colours are read; all others are left out. */

import Anser from "anser";

export interface Piece {
  text: string;
  /** The number of one of the sixteen colours of a terminal, as a name such as `red` or `bright-red`; else none. */
  color: string | null;
  background: string | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

// oxlint-disable-next-line no-control-regex
const STYLE = /\u001b\[[0-9;]*m/g;
// oxlint-disable-next-line no-control-regex
const OTHER = /\u001b(?:\[[0-?]*[ -/]*[@-ln-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
const MOST_CODES = 8;

/** The codes that are in force behind a row, given those before it. */
export function styleAfter(style: string, row: string): string {
  if (!row.includes("\u001b[")) return style;
  let codes = style === "" ? [] : [style];
  for (const [code] of row.matchAll(STYLE)) {
    if (code === "\u001b[0m" || code === "\u001b[m") codes = [];
    else codes.push(code);
  }
  return codes.slice(-MOST_CODES).join("");
}

/** The pieces of a row that begins with a style. */
export function pieces(style: string, row: string): Piece[] {
  if (style === "" && !row.includes("\u001b")) return [{ ...PLAIN, text: row }];
  return Anser.ansiToJson(style + row.replace(OTHER, ""), { use_classes: true, remove_empty: true }).map((entry) => ({
    text: entry.content,
    color: named(entry.fg),
    background: named(entry.bg),
    bold: entry.decorations.includes("bold"),
    dim: entry.decorations.includes("dim"),
    italic: entry.decorations.includes("italic"),
    underline: entry.decorations.includes("underline"),
  }));
}

const PLAIN: Omit<Piece, "text"> = { color: null, background: null, bold: false, dim: false, italic: false, underline: false };
const NAMES = /^ansi-((?:bright-)?(?:black|red|green|yellow|blue|magenta|cyan|white))$/;

/** Colours of palettes and of 24 bits are shown as plain text: their contrast is not known. */
function named(given: string | null): string | null {
  return NAMES.exec(given ?? "")?.[1] ?? null;
}
