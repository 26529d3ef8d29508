/** Which entries of the palette fit what was typed, the best first. */

export type EntryKind = "page" | "act" | "job" | "cluster";

export interface Entry {
  id: string;
  kind: EntryKind;
  label: string;
  /** Shown beside it, such as the state of a job; found, too. */
  details?: string;
  run: () => void;
}

/** The most entries that are shown. */
export const MOST_ENTRIES = 30;
const KINDS: readonly EntryKind[] = ["page", "act", "job", "cluster"];
const NO_MATCH = -1;

/** The entries that fit, in groups of their kinds, the group with the best entry first. */
export function ranked(typed: string, entries: readonly Entry[]): Entry[] {
  const wanted = plain(typed.trim());
  const fitting = entries
    .map((entry, at) => ({ entry, at, points: points(wanted, entry) }))
    .filter(({ points: given }) => given !== NO_MATCH)
    .toSorted((a, b) => b.points - a.points || kindOrder(a.entry) - kindOrder(b.entry) || a.at - b.at)
    .slice(0, MOST_ENTRIES);
  const order = [...new Set(fitting.map(({ entry }) => entry.kind))];
  return order.flatMap((kind) => fitting.filter(({ entry }) => entry.kind === kind).map(({ entry }) => entry));
}

function points(wanted: string, { label, details = "" }: Entry): number {
  if (wanted === "") return 0;
  const name = plain(label);
  if (name === wanted) return 100;
  if (name.startsWith(wanted)) return 80;
  if (words(name).some((word) => word.startsWith(wanted))) return 60;
  if (name.includes(wanted)) return 40;
  if (plain(details).includes(wanted)) return 30;
  return wanted.length >= 2 && inOrder(wanted, name) ? 10 : NO_MATCH;
}

function kindOrder({ kind }: Entry): number {
  return KINDS.indexOf(kind);
}

/** Without case and accents. */
function plain(value: string): string {
  return value.slice(0, 500).normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

function words(value: string): string[] {
  return value.split(/[^\p{L}\p{N}]+/u);
}

/** Whether all characters are in a text, one after another. */
function inOrder(wanted: string, value: string): boolean {
  let from = 0;
  for (const character of wanted) {
    const at = value.indexOf(character, from);
    if (at < 0) return false;
    from = at + character.length;
  }
  return true;
}
