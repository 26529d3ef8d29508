/** The search in the rows that are kept: each row is looked at once, whatever comes behind it. */

import { plain } from "./ansi";
import type { OutputRows } from "./rows";

/** A search tells no more rows than that. */
export const MOST_FOUND = 10_000;

export class Finder {
  private readonly wanted: string;
  private rows: number[] = [];
  private looked = 0;
  private generation = -1;

  constructor(readonly query: string) {
    this.wanted = query.toLowerCase();
  }

  /** The rows with the text, in their order. */
  found(rows: OutputRows): readonly number[] {
    if (this.wanted === "") return [];
    if (rows.generation !== this.generation) {
      this.generation = rows.generation;
      this.rows = [];
      this.looked = 0;
    }
    // The last row may still grow: it is looked at again.
    if (this.rows.at(-1) === this.looked - 1) this.rows.pop();
    for (let index = Math.max(0, this.looked - 1); index < rows.length && this.rows.length < MOST_FOUND; index += 1) {
      if (plain(rows.at(index)?.text ?? "").toLowerCase().includes(this.wanted)) this.rows.push(index);
    }
    this.looked = rows.length;
    return [...this.rows];
  }
}
