import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bareAmount, clock, clockInZone, exact, hour, inColumn, money, short, utcDate, zone } from "./format";

const EVENING = new Date(2026, 10, 27, 20, 4, 8);
const MORNING = new Date(2026, 10, 27, 8, 4, 8);

test("a moment has a short and a full form, which name the zone", () => {
  expect(short(EVENING)).toContain(zone(EVENING));
  expect(exact(EVENING)).toContain(zone(EVENING));
  expect(exact(EVENING)).toContain("2026");
  expect(short(EVENING)).not.toContain("2026");
  expect(`${inColumn(EVENING)} ${zone(EVENING)}`).toBe(short(EVENING));
  expect(clockInZone(EVENING)).toBe(`${clock(EVENING)} ${zone(EVENING)}`);
});

test("an hour of twelve has no zero before it", () => {
  for (const form of [short, exact, clock, hour, inColumn]) expect(form(MORNING)).not.toMatch(/(?:^|\s)0\d:\d\d.*[AP]M/);
});

test("days of the ledger are those of UTC", () => {
  expect(utcDate(new Date("2026-11-27T00:00:00Z"))).toMatch(/27/);
  expect(utcDate(new Date("2026-11-27T23:59:59Z"))).toMatch(/27/);
});

test.each([
  [0, "0.00"],
  [1234.567, "1,234.57"],
  [1, "1.00"],
  [0.5, "0.500"],
  [0.0816, "0.0816"],
  [0.00604, "0.00604"],
  [0.00031, "0.000310"],
  [0.000052, "0.000052"],
  [-0.0816, "-0.0816"],
])("%s USD is %s everywhere", (amount, shown) => {
  expect(bareAmount(amount)).toBe(shown);
  expect(money(amount)).toBe(`${shown} USD`);
});

test("no other module formats times or amounts", () => {
  const sources = join(import.meta.dirname, "..");
  const files = readdirSync(sources, { recursive: true, encoding: "utf8" }).filter((file) => /(?<!\.test|\.d)\.tsx?$/.test(file) && file !== join("ui", "format.ts"));
  const own = /Intl\.(DateTime|Number)Format|toLocale(Time|Date)?String|fixed\([^)]*, 6\)/;

  expect(files.filter((file) => own.test(readFileSync(join(sources, file), "utf8")))).toEqual([]);
});
