import { expect, test } from "vitest";
import { MOST_ENTRIES, ranked, type Entry, type EntryKind } from "./ranking";

function entry(label: string, kind: EntryKind = "page", details?: string): Entry {
  return { id: label, kind, label, run: () => undefined, ...(details === undefined ? {} : { details }) };
}

function labels(typed: string, entries: Entry[]): string[] {
  return ranked(typed, entries).map(({ label }) => label);
}

test("nothing typed shows all, as they come", () => {
  expect(labels("", [entry("Home"), entry("Jobs")])).toEqual(["Home", "Jobs"]);
});

test("the whole name goes first, then beginnings, words, parts, and characters in order", () => {
  const entries = [entry("fjob"), entry("my job"), entry("jobs"), entry("a joyous bear"), entry("job"), entry("home")];
  expect(labels("job", entries)).toEqual(["job", "jobs", "my job", "fjob", "a joyous bear"]);
});

test("case and accents do not matter", () => {
  expect(labels("relaxe", [entry("Rélaxe")])).toEqual(["Rélaxe"]);
});

test("a job is found by its number in the details", () => {
  expect(labels("4711", [entry("relax", "job", "#4711")])).toEqual(["relax"]);
});

test("entries of a kind stay together, and the kind of the best one goes first", () => {
  const entries = [entry("Jobs"), entry("xjobx", "job"), entry("job", "job"), entry("Job page")];
  expect(ranked("job", entries).map(({ kind }) => kind)).toEqual(["job", "job", "page", "page"]);
});

test("characters of patterns are characters", () => {
  expect(labels(".*", [entry("anything")])).toEqual([]);
  expect(labels("(", [entry("f(x)")])).toEqual(["f(x)"]);
});

test("there is a bound, for entries and for what is looked at", () => {
  expect(ranked("a", Array.from({ length: 1_000 }, (_, at) => entry(`a${at}`)))).toHaveLength(MOST_ENTRIES);
  expect(labels("z", [entry(`${"a".repeat(1_000_000)}z`)])).toEqual([]);
});
