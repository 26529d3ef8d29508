/** What a browser loads before it shows the list of jobs, of the console as it was built. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";

const DIST = join(import.meta.dirname, "../dist");
const MOST_SCRIPTS = 4;
// Below 250 KB, which `make bench-console` allows, so that a large step is seen before it is too late.
const MOST_SCRIPT_BYTES = 245_000;
const MOST_STYLE_BYTES = 30_000;

const built = existsSync(join(DIST, "index.html"));
const read = (name: string) => readFileSync(join(DIST, "assets", name), "utf8");
const names = built ? readdirSync(join(DIST, "assets")) : [];
const page = built ? readFileSync(join(DIST, "index.html"), "utf8") : "";

/** The scripts that a script imports, without those that it loads later. */
function imports(name: string): string[] {
  return [...read(name).matchAll(/(?:\bimport|\bfrom)\s*["'`]\.\/([\w~.-]+\.js)["'`]/g)].flatMap(([, imported]) => imported ?? []);
}

/** The scripts that a script loads in any case, and itself. */
function withImports(name: string, into = new Set<string>()): Set<string> {
  if (into.has(name)) return into;
  into.add(name);
  for (const imported of imports(name)) withImports(imported, into);
  return into;
}

/** The compressed size of files together, in bytes. */
function size(files: Iterable<string>): number {
  return [...files].reduce((sum, name) => sum + gzipSync(read(name), { level: 9 }).length, 0);
}

/** All scripts of the list of jobs: those of the page itself, and those that its room is loaded with. */
function jobsScripts(): Set<string> {
  const scripts = new Set<string>();
  for (const [, name] of page.matchAll(/\/assets\/([\w~.-]+\.js)/g)) if (name !== undefined) withImports(name, scripts);
  const room = names.filter((name) => /^jobs-.*\.js$/.test(name));
  expect(room).toHaveLength(1);
  for (const name of room) withImports(name, scripts);
  return scripts;
}

describe.skipIf(!built)("the built console (make console-build)", () => {
  test("loads few and small scripts for the list of jobs", () => {
    const scripts = jobsScripts();

    expect(scripts.size, [...scripts].join()).toBeLessThanOrEqual(MOST_SCRIPTS);
    expect(size(scripts)).toBeLessThanOrEqual(MOST_SCRIPT_BYTES);
  });

  test("has no script that imports itself through others: it would use what is not defined yet", () => {
    const scripts = names.filter((name) => name.endsWith(".js"));
    const within = scripts.filter((name) => imports(name).some((imported) => withImports(imported).has(name)));

    expect(within).toEqual([]);
  });

  test("has one small style sheet", () => {
    const styles = names.filter((name) => name.endsWith(".css"));

    expect(styles).toHaveLength(1);
    expect(size(styles)).toBeLessThanOrEqual(MOST_STYLE_BYTES);
  });

  test("has the styles of each part of Mantine that it has", () => {
    const styles = names.filter((name) => name.endsWith(".css")).map(read).join("");
    const used = names.filter((name) => name.endsWith(".js")).flatMap((name) => read(name).match(/\bm_[0-9a-f]{6,8}\b/g) ?? []);

    expect(used.length).toBeGreaterThan(0);
    expect([...new Set(used)].filter((name) => !styles.includes(name)), "missing in src/ui/theme/mantine.css").toEqual([]);
  });
});
