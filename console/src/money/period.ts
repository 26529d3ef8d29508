/** Periods of whole days in UTC, as the ledger counts. */

export interface Period {
  /** `2026-11-01`. */
  from: string;
  /** The last day, inclusive. */
  until: string;
}

export type Preset = "month" | "last_month" | "days30" | "days7";

const DAY_MS = 86_400_000;

/** A moment's day in UTC. */
export function dayOf(moment: number): string {
  return new Date(moment).toISOString().slice(0, 10);
}

/** The day after one, as the API's `to`. */
export function after(day: string): string {
  return dayOf(Date.parse(`${day}T00:00:00Z`) + DAY_MS);
}

export function preset(name: Preset, now: number): Period {
  const today = dayOf(now);
  const first = `${today.slice(0, 7)}-01`;
  switch (name) {
    case "month":
      return { from: first, until: today };
    case "last_month": {
      const last = dayOf(Date.parse(`${first}T00:00:00Z`) - DAY_MS);
      return { from: `${last.slice(0, 7)}-01`, until: last };
    }
    case "days30":
      return { from: dayOf(now - 29 * DAY_MS), until: today };
    case "days7":
      return { from: dayOf(now - 6 * DAY_MS), until: today };
  }
}

/** The preset that a period is; null for another one. */
export function presetOf(period: Period, now: number): Preset | null {
  const names: readonly Preset[] = ["month", "last_month", "days30", "days7"];
  return (
    names.find((name) => {
      const { from, until } = preset(name, now);
      return from === period.from && until === period.until;
    }) ?? null
  );
}

/** All days of a period, 400 at most. */
export function days({ from, until }: Period): string[] {
  const found: string[] = [];
  const end = Date.parse(`${until}T00:00:00Z`);
  for (let at = Date.parse(`${from}T00:00:00Z`); at <= end && found.length < 400; at += DAY_MS) found.push(dayOf(at));
  return found;
}
