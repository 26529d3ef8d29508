import { describe, expect, it } from "vitest";
import { MOST_PIECES, pieces, PLAIN, plain, sameStyle, styleAfter, type Style } from "./ansi";

const texts = (row: string) => pieces(PLAIN, row).map(({ text }) => text).join("");

describe("colours of an output", () => {
  it("are pieces of text, and markup stays text", () => {
    const row = "\u001b[31mred <b onclick=x>\u001b[0m plain \u001b[1;92mok";
    const shown = pieces(PLAIN, row);
    expect(texts(row)).toBe("red <b onclick=x> plain ok");
    expect(shown[0]).toMatchObject({ color: "red", bold: false });
    expect(shown.at(-1)).toMatchObject({ text: "ok", color: "bright-green", bold: true });
  });

  it("go on in the next row until they are ended", () => {
    expect(pieces(styleAfter(PLAIN, "\u001b[31mone"), "two")).toEqual([{ ...PLAIN, text: "two", color: "red" }]);
    expect(styleAfter({ ...PLAIN, color: "red" }, "\u001b[0m")).toEqual(PLAIN);
    expect(styleAfter({ ...PLAIN, color: "red" }, "\u001b[m")).toEqual(PLAIN);
    expect(styleAfter(PLAIN, "x".repeat(100))).toBe(PLAIN);
  });

  it("of a log that never ends them all at once end one by one", () => {
    const line = "\u001b[1;3;4;7;9;31;42mError\u001b[39m\u001b[49m\u001b[22m\u001b[23m\u001b[24m\u001b[27m\u001b[29m: no such file";
    let style: Style = PLAIN;
    for (let row = 0; row < 1_000; row += 1) style = styleAfter(style, line);
    expect(style).toEqual(PLAIN);
    expect(pieces(PLAIN, line)).toEqual([
      { text: "Error", color: "red", background: "green", bold: true, dim: false, italic: true, underline: true, inverse: true, strike: true },
      { ...PLAIN, text: ": no such file" },
    ]);
  });

  it("leave out what moves the cursor or names the window", () => {
    expect(texts("a\u001b[2Kb\u001b]0;title\u0007c\u001b[3;4Hd\u001b[>4me")).toBe("abcde");
    expect(texts("a\u001b[")).toBe("a\u001b[");
  });

  it("know no colours but the sixteen of a terminal, and misread none", () => {
    for (const code of ["38;2;1;2;31", "38;5;31", "38:5:31", "38:2::1;58;5;4", "31;38;5;1"]) {
      expect(pieces(PLAIN, `\u001b[${code}mx`)).toEqual([{ ...PLAIN, text: "x" }]);
    }
    expect(pieces(PLAIN, "\u001b[38;5;1;32mx")[0]).toMatchObject({ color: "green" });
  });

  it("in a code that is too long are left out", () => {
    expect(pieces(PLAIN, `\u001b[${"1;".repeat(4_000)}31mx`)).toEqual([{ ...PLAIN, text: "x" }]);
  });

  it("are bounded in a row: the rest is plain", () => {
    const row = "\u001b[31ma\u001b[32mb".repeat(1_000);
    const shown = pieces(PLAIN, row);
    expect(shown).toHaveLength(MOST_PIECES);
    expect(shown.at(-1)).toMatchObject(PLAIN);
    expect(texts(row)).toBe("ab".repeat(1_000));
    expect(styleAfter(PLAIN, row)).toMatchObject({ color: "green" });
  });
});

/** Numbers that are the same in each run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const FRAGMENTS = [
  "\u001b[", "\u001b]", "\u001b", "\u001b[0m", "\u001b[1;1;1", "\u001b[39m", "\u001b[38;5;", "\u0007", "\u001b\\",
  "m", ";", ":", "1;", "31", "word ", "<b>", "\u202e", "😀", "constructor", "\u001b[48;2;1;2;3m", "\u001b[7m", "\u001b[999999999999m",
];

describe("any rows", () => {
  it("lose no text, make few pieces, and carry a style of a fixed size", () => {
    const next = numbers(7);
    for (let run = 0; run < 200; run += 1) {
      let style: Style = PLAIN;
      for (let number = 0; number < 20; number += 1) {
        const row = Array.from({ length: next(run % 10 === 0 ? 1_500 : 60) }, () => FRAGMENTS[next(FRAGMENTS.length)] ?? "").join("");
        const shown = pieces(style, row);
        expect(shown.map(({ text }) => text).join("")).toBe(plain(row));
        expect(shown.length).toBeLessThanOrEqual(Math.min(MOST_PIECES, row.length + 1));
        const after = styleAfter(style, row);
        // No code holds a line end: what stands behind the row has the style that goes on.
        const goesOn = pieces(style, `${row}\n`);
        if (goesOn.length < MOST_PIECES) expect(sameStyle(goesOn.at(-1) ?? PLAIN, after)).toBe(true);
        style = after;
        expect(Object.keys(style)).toEqual(Object.keys(PLAIN));
        expect(JSON.stringify(style).length).toBeLessThan(200);
      }
    }
  });

  it("that are made to be slow have the same few pieces at any length", () => {
    for (const part of ["\u001b[1;1;1", "\u001b]8;;x", "\u001b[", "\u001b[1m", "1;", "\u001b"]) {
      const row = part.repeat(10_000);
      expect(pieces(PLAIN, row).length).toBeLessThanOrEqual(2);
      expect(JSON.stringify(styleAfter(PLAIN, row)).length).toBeLessThan(200);
    }
  });
});
