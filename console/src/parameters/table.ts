/** Reads a table as it is pasted or picked, to show what a job would get of it. The service reads it again. */

export interface Table {
  columns: string[];
  /** How many rows there are; more than MOST_ROWS are not counted. */
  count: number;
  /** The first ones. */
  rows: string[][];
  /** The columns that are missing. */
  missing: string[];
}

export const MOST_ROWS = 1000;
const SHOWN = 5;
const MOST_COLUMNS = 100;

export function readTable(written: string, format: "csv" | "tsv", needed: readonly string[]): Table {
  const separator = format === "tsv" ? "\t" : ",";
  const table: Table = { columns: [], count: -1, rows: [], missing: [] };
  const source = written.startsWith("\ufeff") ? written.slice(1) : written;
  let at = 0;
  while (at < source.length && table.count <= MOST_ROWS) {
    const { cells, next } = row(source, at, separator);
    at = next;
    if (cells.length === 1 && cells[0] === "") continue;
    if (table.count === -1) table.columns = cells;
    else if (table.count < SHOWN) table.rows.push(cells);
    table.count += 1;
  }
  return { ...table, count: Math.max(0, table.count), missing: needed.filter((name) => !table.columns.includes(name)) };
}

/** One row from here on: a quoted cell may have separators, line breaks, and quotes written twice. */
function row(source: string, from: number, separator: string): { cells: string[]; next: number } {
  const cells: string[] = [];
  let cell = "";
  let quoted = false;
  let at = from;
  const add = () => {
    if (cells.length < MOST_COLUMNS) cells.push(cell.trim());
    cell = "";
  };
  for (; at < source.length; at += 1) {
    const character = source[at] as string;
    if (quoted) {
      if (character !== '"') cell += character;
      else if (source[at + 1] === '"') {
        cell += character;
        at += 1;
      } else quoted = false;
    } else if (character === '"' && cell === "") quoted = true;
    else if (character === separator) add();
    else if (character === "\n") break;
    else if (character !== "\r") cell += character;
  }
  add();
  return { cells, next: at + 1 };
}
