/** Search params that several rooms read. What is wrong with one of them leaves it out: a wrong URL is no error. */

import * as v from "valibot";

/** Valibot takes forms of ISO 8601 that no browser reads, such as an offset of hours alone. */
const readable = v.check((value: string) => Number.isFinite(Date.parse(value)));

/** A moment, such as `2026-01-01T00:00:00Z`. */
export const momentParam = v.fallback(v.optional(v.pipe(v.string(), v.isoTimestamp(), readable)), undefined);

/** Valibot takes any day up to the 31st, and some browsers read 31 February as 3 March: a day has to be written as it is read. */
const ofCalendar = v.check((value: string) => new Date(Date.parse(value) || 0).toISOString().startsWith(value));

/** A job or a task of an array, such as `9_3`. An address that was typed by hand has a number in place of a string. */
export const jobParam = v.fallback(
  v.optional(v.pipe(v.union([v.string(), v.number()]), v.transform(String), v.regex(/^[0-9]{1,10}(?:_[0-9]{1,10})?$/))),
  undefined,
);

/** A day, such as `2026-01-01`. */
export const dayParam = v.fallback(v.optional(v.pipe(v.string(), v.isoDate(), ofCalendar)), undefined);
