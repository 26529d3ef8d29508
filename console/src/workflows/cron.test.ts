import { expect, test } from "vitest";
import { readCron } from "./cron";

const FRIDAY = new Date("2026-11-27T06:10:30Z");
const times = (text: string, count = 3) => {
  const read = readCron(text, FRIDAY, count);
  return "times" in read ? read.times.map((time) => time.toISOString().slice(0, 16)) : read;
};

test.each([
  ["0 * * * *", ["2026-11-27T07:00", "2026-11-27T08:00", "2026-11-27T09:00"]],
  ["*/20 6 * * *", ["2026-11-27T06:20", "2026-11-27T06:40", "2026-11-28T06:00"]],
  ["30 2 * * 1-5", ["2026-11-30T02:30", "2026-12-01T02:30", "2026-12-02T02:30"]],
  ["0 0 29 2 *", ["2028-02-29T00:00", "2032-02-29T00:00", "2036-02-29T00:00"]],
  ["0 12 1 * mon", ["2026-11-30T12:00", "2026-12-01T12:00", "2026-12-07T12:00"]],
  ["0 12 */2 * mon", ["2026-12-07T12:00", "2026-12-21T12:00", "2027-01-11T12:00"]],
  ["0 0 * jul 7", ["2027-07-04T00:00", "2027-07-11T00:00", "2027-07-18T00:00"]],
  ["50/5 22-23 * * *", ["2026-11-27T22:50", "2026-11-27T22:55", "2026-11-27T23:50"]],
])("%s comes at the times at which the gateway has it", (text, expected) => {
  expect(times(text)).toEqual(expected);
});

test.each([
  ["", "fields"],
  ["* * * *", "fields"],
  ["0 0 0 0 0 0", "fields"],
  ["60 * * * *", "field"],
  ["0 24 * * *", "field"],
  ["0 0 5-1 * *", "field"],
  ["0 0 1-2-3 * *", "field"],
  ["*/0 * * * *", "field"],
  ["0 0 * * *#2", "field"],
  ["0 0 31 2 *", "never"],
  ["* * * * *", "often"],
  ["0,3 0 * * *", "often"],
  ["58,0 * * * *", "often"],
])("%s is refused", (text, problem) => {
  expect(times(text)).toEqual({ problem });
});

test.each(["0 0 L * *", "0 0 LW * *", "0 0 * * 5L"])("%s is left to the gateway", (text) => {
  expect(times(text)).toEqual({ beyond: true });
});

test("each time is after the one before, also over the change of a year", () => {
  const read = readCron("17 3,9,21 * * *", new Date("2026-12-31T12:00:00Z"), 50);
  expect("times" in read && read.times.every((time, index) => index === 0 || time > (read.times[index - 1] ?? time))).toBe(true);
});
