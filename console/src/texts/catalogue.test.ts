/** Each text is used by a source. That a used key exists is for the types to say (texts/index.ts). */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { en } from "./en";

const SOURCES = join(import.meta.dirname, "..");
const PLURAL = /_(one|other)$/;

/** The keys of all texts, without the endings of plurals. */
function keysOf(texts: object, path = ""): string[] {
  return Object.entries(texts).flatMap(([key, value]: [string, unknown]) =>
    typeof value === "object" && value !== null ? keysOf(value, `${path}${key}.`) : [(path + key).replace(PLURAL, "")],
  );
}

/** What a source may ask for: each literal that looks like a key; `${…}` stands for any part of one. */
function askedIn(source: string): RegExp[] {
  const literals = source.matchAll(/(["`])([a-z_]+\.(?:\$\{[^`}]*\}|[\w.])+)\1/g);
  return [...literals].map(([, , key = ""]) => new RegExp(`^${key.replaceAll(".", "\\.").replaceAll(/\$\{[^}]*\}/g, "[\\w-]+")}$`));
}

test("each text is used", () => {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((file) => /(?<!\.test|\.d)\.tsx?$/.test(file));
  const asked = files.flatMap((file) => askedIn(readFileSync(join(SOURCES, file), "utf8")));

  const unused = [...new Set(keysOf(en))].filter((key) => !asked.some((each) => each.test(key)));

  expect(unused).toEqual([]);
});
