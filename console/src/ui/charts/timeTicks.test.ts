import { expect, test } from "vitest";
import { date, hour } from "../format";
import { timeTicks } from "./timeTicks";

const NOON = new Date(2026, 10, 27, 12);
const at = (hours: number) => NOON.getTime() / 1_000 + hours * 3_600;
const shown = (hours: number) => new Date(at(hours) * 1_000);

test("hours have their day where it begins", () => {
  const ticks = timeTicks([6, 12, 18].map(at), 6 * 3_600);

  expect(ticks).toEqual([`${hour(shown(6))}\n${date(shown(6))}`, `${hour(shown(12))}\n${date(shown(12))}`, hour(shown(18))]);
});

test("days have no hours", () => {
  expect(timeTicks([0, 24].map(at), 24 * 3_600)).toEqual([date(shown(0)), date(shown(24))]);
});
