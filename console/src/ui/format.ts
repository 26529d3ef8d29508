/**
 * Numbers, times, durations and money for people, in the language of the texts and the viewer's zone. Nothing else
 * formats times or amounts: a test holds it to that.
 */

import { LOCALE } from "../texts";

/** Hours as the locale has them: `8:34 PM`, or `08:34` of 24 hours. */
const HOUR_MINUTE = { hour: "numeric", minute: "2-digit" } as const;
const DAY_OF_YEAR = { month: "short", day: "numeric" } as const;
const SHORT_IN_ZONE = { ...DAY_OF_YEAR, ...HOUR_MINUTE } as const;
const ZONE = new Intl.DateTimeFormat(LOCALE, { timeZoneName: "short" });
const CLOCK = new Intl.DateTimeFormat(LOCALE, { ...HOUR_MINUTE, second: "2-digit" });
const HOUR = new Intl.DateTimeFormat(LOCALE, HOUR_MINUTE);
const DATE = new Intl.DateTimeFormat(LOCALE, DAY_OF_YEAR);
const UTC_DATE = new Intl.DateTimeFormat(LOCALE, { ...DAY_OF_YEAR, timeZone: "UTC" });
const SHORT = new Intl.DateTimeFormat(LOCALE, { ...SHORT_IN_ZONE, timeZoneName: "short" });
const COLUMN = new Intl.DateTimeFormat(LOCALE, SHORT_IN_ZONE);
const UTC_COLUMN = new Intl.DateTimeFormat(LOCALE, { ...SHORT_IN_ZONE, timeZone: "UTC" });
const FULL = new Intl.DateTimeFormat(LOCALE, { year: "numeric", ...SHORT_IN_ZONE, second: "2-digit", timeZoneName: "short" });
const PERCENT = new Intl.NumberFormat(LOCALE, { style: "percent" });
const RELATIVE = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto", style: "short" });

/** A whole number with separators. */
export function count(value: number): string {
  return value.toLocaleString(LOCALE);
}

/** The short name of the viewer's zone at a moment, such as `CET`, or `CEST` in summer. */
export function zone(moment = new Date()): string {
  return ZONE.formatToParts(moment).find((part) => part.type === "timeZoneName")?.value ?? "";
}

/** A moment in its short form: `Nov 27, 8:34 PM UTC`. */
export function short(moment: Date): string {
  return SHORT.format(moment);
}

/** A moment in full, to the second: `Nov 27, 2026, 8:34:58 PM UTC`. For `title`, and where the exact time matters. */
export function exact(moment: Date): string {
  return FULL.format(moment);
}

/** The short form below a head that names the zone: the viewer's own, or UTC. */
export function inColumn(moment: Date, zoneOf: "own" | "UTC" = "own"): string {
  return (zoneOf === "UTC" ? UTC_COLUMN : COLUMN).format(moment);
}

/** The day of a moment, without its time. */
export function date(moment: Date): string {
  return DATE.format(moment);
}

/** A day in UTC, as the ledger has days. */
export function utcDate(moment: Date): string {
  return UTC_DATE.format(moment);
}

/** The time of the day to the second, for moments of which many stand side by side: `8:34:58 PM`. */
export function clock(moment: Date): string {
  return CLOCK.format(moment);
}

/** The same with the zone, once for all of them: `8:34:58 PM UTC`. */
export function clockInZone(moment: Date): string {
  return `${clock(moment)} ${zone(moment)}`;
}

/** The hours and minutes of a time axis. */
export function hour(moment: Date): string {
  return HOUR.format(moment);
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
];

/** A moment relative to `now`: "5 min ago", or rounded "in 2 hr". From a month on it is the day. */
export function relative(moment: Date, now: Date): string {
  let distance = (moment.getTime() - now.getTime()) / 1000;
  for (const [unit, size] of STEPS) {
    if (Math.abs(distance) < size) return RELATIVE.format(distance > 0 ? Math.round(distance) : Math.trunc(distance), unit);
    distance /= size;
  }
  return DATE.format(moment);
}

/** A duration of so many seconds: `0.4 s`, `12 s`, `4 min 12 s`, `1 h 04 min`, `2 d 03 h`. */
export function duration(seconds: number): string {
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds < 10 && !Number.isInteger(seconds)) return `${fixed(seconds, 1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86_400)} d ${two(Math.floor((whole % 86_400) / 3600))} h`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** Money with its currency: `0.0816 USD`. */
export function money(amount: number, currency = "USD"): string {
  return `${bareAmount(amount)} ${currency}`;
}

/**
 * An amount of money below a head that names the currency: `0.0816`. The rule of all amounts: two digits after the point
 * from 1 on, below it three digits that say something, and none beyond the millionths that the ledger has.
 */
export function bareAmount(amount: number): string {
  const size = Math.abs(amount);
  return fixed(amount, size === 0 || size >= 1 ? 2 : Math.min(MOST_DIGITS, 2 - Math.floor(Math.log10(size))));
}

/** A number with this many digits after the point: `0.021`. */
export function fixed(value: number, digits: number): string {
  return value.toLocaleString(LOCALE, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** The digits of a millionth. */
const MOST_DIGITS = 6;
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A size in bytes with the largest unit of which there is one: `1.5 GiB`. */
export function bytes(size: number): string {
  let unit = 0;
  let value = size;
  while (value >= 1024 && unit < BINARY.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : fixed(value, value < 10 ? 1 : 0)} ${BINARY[unit]}`;
}

/** A share between 0 and 1 in percent. */
export function percent(share: number): string {
  return PERCENT.format(share);
}
