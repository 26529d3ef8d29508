/**
 * A row as pieces of text with their colours. The codes of colours are folded into a style of a fixed size, which the next
 * row begins with; all other codes are left out. Everything takes time linear in the row's length.
 */

export interface Style {
  /** One of the sixteen colours of a terminal, as a name such as `red` or `bright-red`; else none. */
  color: string | null;
  background: string | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  inverse: boolean;
  strike: boolean;
}

export interface Piece extends Style {
  text: string;
}

export const PLAIN: Style = Object.freeze({
  color: null,
  background: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  inverse: false,
  strike: false,
});

/** The most pieces of a row: what is left of it is plain. */
export const MOST_PIECES = 200;
/** A longer code of colours is left out. */
const LONGEST_CODE = 64;
// Each part stops at the next escape, so that no character is looked at more than a few times.
// oxlint-disable-next-line no-control-regex
const SEQUENCE = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
// oxlint-disable-next-line no-control-regex
const COLORS = /^\u001b\[([0-9;:]*)m$/;
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;

/** A row as people see it, without its codes. */
export function plain(row: string): string {
  return row.includes("\u001b") ? row.replace(SEQUENCE, "") : row;
}

/** The style that is in force behind a row, given the one before it. */
export function styleAfter(style: Style, row: string): Style {
  if (!row.includes("\u001b[")) return style;
  let after = style;
  for (const [sequence] of row.matchAll(SEQUENCE)) after = changed(after, sequence);
  return after;
}

/** The pieces of a row that begins with a style. */
export function pieces(style: Style, row: string): Piece[] {
  if (!row.includes("\u001b")) return [{ ...style, text: row }];
  const found: Piece[] = [];
  let current = style;
  let text = "";
  let from = 0;
  for (const match of row.matchAll(SEQUENCE)) {
    const [sequence] = match;
    text += row.slice(from, match.index);
    from = match.index + sequence.length;
    const next = changed(current, sequence);
    if (sameStyle(current, next)) continue;
    if (text !== "") found.push({ ...current, text });
    text = "";
    current = next;
    if (found.length < MOST_PIECES - 1) continue;
    current = PLAIN;
    break;
  }
  text += plain(row.slice(from));
  if (text !== "") found.push({ ...current, text });
  return found;
}

export function sameStyle(one: Style, other: Style): boolean {
  return (
    one === other ||
    (one.color === other.color &&
      one.background === other.background &&
      one.bold === other.bold &&
      one.dim === other.dim &&
      one.italic === other.italic &&
      one.underline === other.underline &&
      one.inverse === other.inverse &&
      one.strike === other.strike)
  );
}

function changed(style: Style, sequence: string): Style {
  if (sequence.length > LONGEST_CODE) return style;
  const codes = COLORS.exec(sequence)?.[1]?.split(";");
  if (codes === undefined) return style;
  let after = style;
  for (let at = 0; at < codes.length; at += 1) {
    const [code = "", detail] = (codes[at] ?? "").split(":");
    const number = Number(code);
    after = { ...after, ...effect(number, detail) };
    // The numbers behind it name a colour of a palette, or of 24 bits; with colons they are in the code itself.
    if ((number === 38 || number === 48 || number === 58) && detail === undefined) {
      at += codes[at + 1] === "5" ? 2 : codes[at + 1] === "2" ? 4 : 0;
    }
  }
  return after;
}

/** Colours of palettes and of 24 bits are shown as plain text: their contrast is not known. */
function effect(code: number, detail: string | undefined): Partial<Style> {
  if (code >= 30 && code <= 37) return { color: nameOf(code - 30) };
  if (code >= 90 && code <= 97) return { color: `bright-${nameOf(code - 90)}` };
  if (code >= 40 && code <= 47) return { background: nameOf(code - 40) };
  if (code >= 100 && code <= 107) return { background: `bright-${nameOf(code - 100)}` };
  switch (code) {
    case 0:
      return PLAIN;
    case 1:
      return { bold: true };
    case 2:
      return { dim: true };
    case 3:
      return { italic: true };
    case 4:
      return { underline: detail !== "0" };
    case 7:
      return { inverse: true };
    case 9:
      return { strike: true };
    case 21:
      return { underline: true };
    case 22:
      return { bold: false, dim: false };
    case 23:
      return { italic: false };
    case 24:
      return { underline: false };
    case 27:
      return { inverse: false };
    case 29:
      return { strike: false };
    case 38:
    case 39:
      return { color: null };
    case 48:
    case 49:
      return { background: null };
    default:
      return {};
  }
}

function nameOf(number: number): string {
  return NAMES[number] ?? "white";
}
