import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compressed } from "../vite.config";

// Vite rewrites an import on demand late in the build.
const LONG = `console.log(${JSON.stringify("the console ".repeat(500))}); import("./lazy.js"); import("./lazy.css");`;
const SHORT = "console.log('short');";

let folder: string;
let assets: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "compressed-"));
  await writeFile(join(folder, "long.js"), LONG);
  await writeFile(join(folder, "short.js"), SHORT);
  await writeFile(join(folder, "lazy.js"), "import './lazy.css'; export const lazy = 1;");
  await writeFile(join(folder, "lazy.css"), "a { color: red }");
  const output = { entryFileNames: "[name].js" };
  await build({
    root: folder,
    configFile: false,
    logLevel: "silent",
    plugins: [compressed()],
    build: { rolldownOptions: { input: [join(folder, "long.js"), join(folder, "short.js")], output } },
  });
  assets = join(folder, "dist");
});

afterAll(() => rm(folder, { recursive: true }));

describe("a build", () => {
  test("has each large text file compressed beside itself", async () => {
    const plain = await readFile(join(assets, "long.js"));

    expect(brotliDecompressSync(await readFile(join(assets, "long.js.br")))).toEqual(plain);
    expect(gunzipSync(await readFile(join(assets, "long.js.gz")))).toEqual(plain);
  });

  test("has a small file only as it is", async () => {
    const names = await readdir(assets);

    expect(names.filter((name) => name.startsWith("short"))).toEqual(["short.js"]);
  });
});
