import { describe, expect, it } from "vitest";
import { rowsOf } from "./decode";
import { Finder } from "./find";
import { OutputRows, ROW_CHARACTERS } from "./rows";

const bytes = (text: string) => new TextEncoder().encode(text);

function texts(rows: OutputRows): string[] {
  return Array.from({ length: rows.length }, (_, index) => rows.at(index)?.text ?? "");
}

/** The output as it would be written again: rows that are continued belong to the line before. */
function joined(rows: OutputRows): string {
  let text = "";
  for (let index = 0; index < rows.length; index += 1) {
    const row = rows.at(index);
    text += (index > 0 && !row?.continued ? "\n" : "") + (row?.text ?? "");
  }
  return text;
}

let seed = 3;
function random(most: number): number {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return seed % most;
}

describe("rows of an output", () => {
  it("are the same however the text comes in pieces", () => {
    const text = Array.from({ length: 200 }, (_, line) => `${line} ${"x".repeat(random(90))}`).join("\n");
    for (let attempt = 0; attempt < 20; attempt += 1) {
      const rows = new OutputRows();
      for (let at = 0; at < text.length; ) {
        const next = Math.min(text.length, at + 1 + random(300));
        rows.append(text.slice(at, next), next);
        at = next;
      }
      expect(joined(rows)).toBe(text);
      expect(rows.end).toBe(text.length);
    }
  });

  it("keep empty lines, and none behind the last line end", () => {
    const rows = new OutputRows();
    rows.append("a\n\nb\n", 5);
    expect(texts(rows)).toEqual(["a", "", "b"]);
    rows.append("\n", 6);
    expect(texts(rows)).toEqual(["a", "", "b", ""]);
    rows.append("c", 7);
    rows.append("d\ne", 10);
    expect(texts(rows)).toEqual(["a", "", "b", "", "cd", "e"]);
  });

  it("cut a line that is longer than a row, and lose nothing", () => {
    const line = "y".repeat(3 * ROW_CHARACTERS + 5);
    const rows = new OutputRows();
    rows.append(`${line}\nend\n`, line.length + 5);
    expect(joined(rows)).toBe(`${line}\nend`);
    expect(Math.max(...texts(rows).map(({ length }) => length))).toBe(ROW_CHARACTERS);
  });

  it("stay within their bounds, also for a line without end, and know their bytes", () => {
    for (const piece of ["z".repeat(700), "short\n", `${"w".repeat(333)}\n`]) {
      const rows = new OutputRows(0, 0, { characters: 100_000, rows: 1_000 });
      let written = "";
      for (let number = 0; number < 2_000; number += 1) {
        written += piece;
        rows.append(piece, written.length);
      }
      expect(texts(rows).reduce((sum, { length }) => sum + length, 0)).toBeLessThanOrEqual(110_000);
      expect(rows.length).toBeLessThanOrEqual(1_100);
      expect(rows.begin).toBeGreaterThan(0);
      expect(joined(rows)).toBe(written.slice(rows.begin).replace(/\n$/, ""));
    }
  });

  it("know the numbers of their lines, of which one may have several rows", () => {
    const rows = new OutputRows();
    rows.append(`one\n${"y".repeat(2 * ROW_CHARACTERS + 5)}\nthree\nfour\n`, 1);

    expect(rows.length).toBe(6);
    expect(rows.linesOf(0, 2)).toEqual({ from: 1, to: 2, lines: 4 });
    expect(rows.linesOf(3, 5)).toEqual({ from: 2, to: 4, lines: 4 });
  });

  it("come before others, joined where a line goes on", () => {
    const text = "one\ntwo\nthree and\nfour\n";
    const all = bytes(text);
    for (let cut = 1; cut < all.length; cut += 1) {
      const rows = rowsOf(all.subarray(cut), cut, false);
      rows.prepend(rowsOf(all.subarray(0, rows.begin), 0, false));
      expect(joined(rows)).toBe(text.trimEnd());
      expect([rows.begin, rows.end]).toEqual([0, all.length]);
    }
  });

  it("lose rows at the end when earlier ones come, up to a byte that is known", () => {
    const text = Array.from({ length: 400 }, (_, line) => `line ${line}\n`).join("");
    const all = bytes(text);
    const rows = new OutputRows(2_000, 2_000, { characters: 2_500, rows: 10_000 });
    for (let at = 2_000; at < 4_000; at += 100) rows.append(text.slice(at, at + 100), at + 100);
    rows.prepend(rowsOf(all.subarray(0, 2_000), 0, false));
    expect(rows.end).toBeLessThan(4_000);
    expect(joined(rows)).toBe(text.slice(0, rows.end).replace(/\n$/, ""));
  });
});

describe("bytes of an output", () => {
  it("leave out a character that is cut at either end", () => {
    const all = bytes("äöü€😀 end");
    for (let from = 0; from <= all.length; from += 1) {
      for (let to = from; to <= all.length; to += 1) {
        const rows = rowsOf(all.subarray(from, to), from, true);
        expect(joined(rows)).not.toContain("\ufffd");
        expect(joined(rows)).toBe(new TextDecoder().decode(all.subarray(rows.begin, rows.end)));
      }
    }
  });

  it("show what is no UTF-8, and take every line end for one", () => {
    expect(texts(rowsOf(new Uint8Array([97, 0xff, 98, 13, 10, 99, 13, 100]), 0, false))).toEqual(["a\ufffdb", "c", "d"]);
  });
});

describe("the search", () => {
  it("finds every row with the text, also those that come later, and each once", () => {
    const rows = new OutputRows();
    rows.append("Error one\nfine\n", 15);
    const finder = new Finder("error");
    expect(finder.found(rows)).toEqual([0]);
    rows.append("an eRRor\n", 24);
    expect(finder.found(rows)).toEqual([0, 2]);
    expect(finder.found(rows)).toEqual([0, 2]);
    rows.append("an err", 30);
    expect(finder.found(rows)).toEqual([0, 2]);
    rows.append("or\n", 33);
    expect(finder.found(rows)).toEqual([0, 2, 3]);
  });
});
