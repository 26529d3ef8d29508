/**
 * Cron expressions as the gateway reads them: five fields in UTC. This shows what an expression means before it is
 * sent; the gateway decides. Pure.
 */

interface Cron {
  minutes: ReadonlySet<number>;
  hours: ReadonlySet<number>;
  days: ReadonlySet<number>;
  months: ReadonlySet<number>;
  /** 0 and 7 are Sunday. */
  weekdays: ReadonlySet<number>;
  /** Whether both the day of the month and that of the week must match; else one is enough. */
  bothDays: boolean;
}

/** `fields`: not five. `field`: one cannot be read. `never`: not within 50 years. `often`: less than 5 minutes apart. */
export type CronProblem = "fields" | "field" | "never" | "often";

export type CronReading = { times: Date[] } | { problem: CronProblem } | { beyond: true };

const LEAST_MS = 5 * 60_000;
const LOOKED_AT = 400;
const LAST_YEARS = 50;
const DAY_MS = 86_400_000;
const DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/** The next times of an expression; `beyond` for one that only the gateway can read, such as with `L` for the last day. */
export function readCron(text: string, after: Date, count: number): CronReading {
  const parts = text.trim().toUpperCase().split(/\s+/);
  if (parts.length !== 5) return { problem: "fields" };
  if (!parts.every((part) => /^[0-9A-Z*/,-]{1,100}$/.test(part))) return { problem: "field" };
  if (/L/.test((parts[2] ?? "").replaceAll("JUL", "")) || /[0-9]L/.test(parts[4] ?? "")) return { beyond: true };
  const cron = parsed(parts);
  if (cron === null) return { problem: "field" };
  const times = take(cron, after, LOOKED_AT);
  if (times.length === 0) return { problem: "never" };
  const often = times.some((time, index) => index > 0 && time.getTime() - (times[index - 1]?.getTime() ?? 0) < LEAST_MS);
  return often ? { problem: "often" } : { times: times.slice(0, count) };
}

function parsed([minute = "", hour = "", day = "", month = "", weekday = ""]: string[]): Cron | null {
  const minutes = field(minute, 0, 59);
  const hours = field(hour, 0, 23);
  const days = field(day, 1, 31);
  const months = field(month, 1, 12, MONTHS, 1);
  const weekdays = field(weekday, 0, 7, DAYS, 0);
  if (minutes === null || hours === null || days === null || months === null || weekdays === null) return null;
  return { minutes, hours, days, months, weekdays, bothDays: day.startsWith("*") || weekday.startsWith("*") };
}

/** The values of a field; null for text that is none. */
function field(text: string, least: number, most: number, names: string[] = [], first = 0): ReadonlySet<number> | null {
  const value = (word: string): number | null => {
    const named = names.indexOf(word);
    if (named >= 0) return named + first;
    const number = /^[0-9]+$/.test(word) ? Number(word) : Number.NaN;
    return number >= least && number <= most ? number : null;
  };
  const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);
  const term = (word: string): number[] | null => {
    if (word === "*") return range(least, most);
    const [from = "", to] = word.split("-", 2);
    const begin = value(from);
    const end = to === undefined ? begin : value(to);
    return begin === null || end === null || end < begin || word.split("-").length > 2 ? null : range(begin, end);
  };
  const all = new Set<number>();
  for (const word of text.split(",")) {
    const [of = "", step, ...others] = word.split("/");
    let values = term(of);
    if (values === null || others.length > 0) return null;
    if (step !== undefined) {
      if (!/^[0-9]+$/.test(step) || Number(step) === 0) return null;
      const [only] = values;
      if (values.length === 1 && only !== undefined) values = range(only, most);
      values = values.filter((_, index) => index % Number(step) === 0);
    }
    for (const each of values) all.add(each);
  }
  return all;
}

/** The next times after a moment, at most so many. */
function take(cron: Cron, after: Date, most: number): Date[] {
  const times: Date[] = [];
  const hours = [...cron.hours].toSorted((a, b) => a - b);
  const minutes = [...cron.minutes].toSorted((a, b) => a - b);
  const end = after.getTime() + LAST_YEARS * 366 * DAY_MS;
  for (let day = Math.floor(after.getTime() / DAY_MS) * DAY_MS; day < end && times.length < most; day += DAY_MS) {
    if (!onDay(cron, new Date(day))) continue;
    for (const hour of hours) {
      for (const minute of minutes) {
        const time = day + hour * 3_600_000 + minute * 60_000;
        if (time > after.getTime() && times.length < most) times.push(new Date(time));
      }
    }
  }
  return times;
}

function onDay(cron: Cron, day: Date): boolean {
  if (!cron.months.has(day.getUTCMonth() + 1)) return false;
  const inMonth = cron.days.has(day.getUTCDate());
  const weekday = day.getUTCDay();
  const inWeek = cron.weekdays.has(weekday) || (weekday === 0 && cron.weekdays.has(7));
  return cron.bothDays ? inMonth && inWeek : inMonth || inWeek;
}
