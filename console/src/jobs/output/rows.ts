/**
 * The part of an output that is kept: rows of text, and where in the output they stand in bytes. It grows at its end while
 * the job writes, and at its beginning when one scrolls up; beyond its bounds it loses rows at the other end. A line that
 * is longer than a row has goes on in the next row, so that nothing is hidden and no row is heavy.
 */

/** The most characters of a row. */
export const ROW_CHARACTERS = 10_000;
const MOST_CHARACTERS = 8 * 1024 * 1024;
const MOST_ROWS = 100_000;

export interface Row {
  text: string;
  /** Whether its line began in the row before. */
  continued: boolean;
}

/** A place where a row begins at a known byte. */
interface Mark {
  row: number;
  offset: number;
}

export interface Bounds {
  characters: number;
  rows: number;
}

export class OutputRows {
  private rows: Row[] = [];
  private marks: Mark[] = [];
  private characters = 0;
  /** Whether the last line goes on. */
  private open = false;
  /** The number of the first row, which falls when rows come before it: names of rows stay. */
  first = 0;
  /** How often the rows were replaced or changed before their end, so that what was found is looked for again. */
  generation = 0;

  constructor(
    /** The byte at which the first row begins, and the one behind the last. */
    public begin = 0,
    public end = begin,
    private readonly bounds: Bounds = { characters: MOST_CHARACTERS, rows: MOST_ROWS },
  ) {}

  get length(): number {
    return this.rows.length;
  }

  at(index: number): Row | undefined {
    return this.rows[index];
  }

  /**
   * The numbers of the lines of two rows, and how many lines there are, all counted from the first line that is kept. A
   * line that goes on in further rows is one.
   */
  linesOf(first: number, last: number): { from: number; to: number; lines: number } {
    let [from, to, lines] = [0, 0, 0];
    for (let index = 0; index < this.rows.length; index += 1) {
      if (index === 0 || !this.rows[index]?.continued) lines += 1;
      if (index === first) from = lines;
      if (index === last) to = lines;
    }
    return { from, to, lines };
  }

  /** Text behind the last row, which ends before the byte `end`. Returns how many rows went at the beginning. */
  append(text: string, end: number): number {
    if (text !== "") {
      const joins = this.open && !this.isLong();
      if (!joins) this.marks.push({ row: this.rows.length, offset: this.end });
      let continued = this.open;
      const lines = text.split("\n");
      // Behind the last line end there is no line.
      const complete = lines.at(-1) === "";
      if (complete) lines.pop();
      lines.forEach((line, number) => {
        this.add(line, number === 0 && joins, continued);
        continued = false;
      });
      this.open = !complete;
    }
    this.end = end;
    return this.shortenedAtBeginning();
  }

  /** Puts rows before the first, which end where these begin. Returns how many came. */
  prepend(before: OutputRows): number {
    const [head] = this.rows;
    if (before.open && head !== undefined) head.continued = true;
    const count = before.rows.length;
    this.rows = [...before.rows, ...this.rows];
    this.marks = [...before.marks, ...this.marks.map(({ row, offset }) => ({ row: row + count, offset }))];
    this.characters += before.characters;
    this.begin = before.begin;
    this.first -= count;
    this.generation += 1;
    this.shortenedAtEnd();
    return count;
  }

  /** Whether the last row is so long that its line had better go on in a row of its own, where the beginning can be cut. */
  private isLong(): boolean {
    return (this.rows.at(-1)?.text.length ?? 0) > ROW_CHARACTERS / 2;
  }

  private add(line: string, joins: boolean, continued: boolean): void {
    let rest = line;
    this.characters += line.length;
    const last = this.rows.at(-1);
    if (joins && last !== undefined) {
      const room = ROW_CHARACTERS - last.text.length;
      last.text += rest.slice(0, room);
      rest = rest.slice(room);
      if (rest === "") return;
    }
    let goesOn = continued;
    for (let from = 0; from === 0 || from < rest.length; from += ROW_CHARACTERS) {
      this.rows.push({ text: rest.slice(from, from + ROW_CHARACTERS), continued: goesOn });
      goesOn = true;
    }
  }

  /** Only at a place that is known in bytes, and an eighth at once, so that rows are not moved for each line. */
  private shortenedAtBeginning(): number {
    if (!this.isOver()) return 0;
    let going = 0;
    let characters = this.characters;
    let cut: Mark | undefined;
    for (const mark of this.marks) {
      for (; going < mark.row; going += 1) characters -= this.rows[going]?.text.length ?? 0;
      cut = mark;
      if (characters <= this.bounds.characters * 0.875 && this.rows.length - going <= this.bounds.rows * 0.875) break;
    }
    if (cut === undefined || cut.row === 0) return 0;
    const { row, offset } = cut;
    this.rows = this.rows.slice(row);
    this.marks = this.marks.filter((mark) => mark.row >= row).map((mark) => ({ row: mark.row - row, offset: mark.offset }));
    this.characters = this.rows.reduce((sum, { text }) => sum + text.length, 0);
    this.begin = offset;
    this.first += row;
    this.generation += 1;
    return row;
  }

  private shortenedAtEnd(): void {
    while (this.isOver()) {
      const cut = this.marks.pop();
      if (cut === undefined || cut.row === 0) return;
      const gone = this.rows.splice(cut.row);
      for (const { text } of gone) this.characters -= text.length;
      this.end = cut.offset;
      this.open = gone[0]?.continued ?? false;
    }
  }

  private isOver(): boolean {
    return this.characters > this.bounds.characters || this.rows.length > this.bounds.rows;
  }
}
