/** Numbers, times, durations and money for people, in the language of the texts and the viewer's zone. */

import { LOCALE } from "../texts";

const ZONE = new Intl.DateTimeFormat(LOCALE, { timeZoneName: "short" });
const CLOCK = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const HOUR = new Intl.DateTimeFormat(LOCALE, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(LOCALE, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat(LOCALE, { month: "short", day: "numeric" });
const EXACT = new Intl.DateTimeFormat(LOCALE, { dateStyle: "full", timeStyle: "long" });
const PERCENT = new Intl.NumberFormat(LOCALE, { style: "percent" });
const RELATIVE = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto", style: "short" });

/** A whole number with separators. */
export function count(value: number): string {
  return value.toLocaleString(LOCALE);
}

/** The short name of the viewer's zone, such as `CET`. */
export function zone(): string {
  return ZONE.formatToParts(new Date()).find((part) => part.type === "timeZoneName")?.value ?? "";
}

/** A moment exactly, with its zone: for `title`, and where the exact time matters. */
export function exact(moment: Date): string {
  return EXACT.format(moment);
}

/** The day of a moment, without its time. */
export function date(moment: Date): string {
  return DATE.format(moment);
}

/** A moment as hours, minutes and seconds. */
export function clock(moment: Date): string {
  return CLOCK.format(moment);
}

/** A moment as hours and minutes. */
export function hour(moment: Date): string {
  return HOUR.format(moment);
}

/** A moment as its day and time of the day. */
export function day(moment: Date): string {
  return DAY.format(moment);
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
  return DAY.format(moment);
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

/** Money with its currency: `0.021 USD`. Small amounts keep three digits that say something. */
export function money(amount: number, currency = "USD"): string {
  const size = Math.abs(amount);
  const digits = size === 0 || size >= 1 ? 2 : size >= 0.01 ? 3 : size >= 0.0001 ? 5 : 6;
  return `${fixed(amount, digits)} ${currency}`;
}

/** A number with this many digits after the point: `0.021`. */
export function fixed(value: number, digits: number): string {
  return value.toLocaleString(LOCALE, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

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
