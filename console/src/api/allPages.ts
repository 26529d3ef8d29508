/** A list that is read page by page up to a bound. */
export interface Bounded<Row> {
  rows: Row[];
  /** There are more than were read. */
  cut: boolean;
}

const MOST_ROWS = 2_000;

/** Reads a list page by page, until its end or 2,000 rows. */
export async function allPages<Row>(page: (cursor: string | null) => Promise<[Row[], string | null]>): Promise<Bounded<Row>> {
  const rows: Row[] = [];
  let cursor: string | null = null;
  do {
    const [more, next]: [Row[], string | null] = await page(cursor);
    rows.push(...more);
    cursor = next;
  } while (cursor !== null && rows.length < MOST_ROWS);
  return { rows, cut: cursor !== null };
}
