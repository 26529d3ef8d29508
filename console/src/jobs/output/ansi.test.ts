import { describe, expect, it } from "vitest";
import { pieces, styleAfter } from "./ansi";

describe("colours of an output", () => {
  it("are pieces of text, and markup stays text", () => {
    const row = "\u001b[31mred <b onclick=x>\u001b[0m plain \u001b[1;92mok";
    const shown = pieces("", row);
    expect(shown.map(({ text }) => text).join("")).toBe("red <b onclick=x> plain ok");
    expect(shown[0]).toMatchObject({ color: "red", bold: false });
    expect(shown.at(-1)).toMatchObject({ text: "ok", color: "bright-green", bold: true });
  });

  it("go on in the next row until they are ended", () => {
    expect(pieces(styleAfter("", "\u001b[31mone"), "two")[0]).toMatchObject({ text: "two", color: "red" });
    expect(styleAfter("\u001b[31m", "\u001b[0m")).toBe("");
    expect(styleAfter("", "x".repeat(100))).toBe("");
    expect(styleAfter("", "\u001b[1m".repeat(1_000)).length).toBeLessThan(100);
  });

  it("leave out what moves the cursor or names the window", () => {
    expect(pieces("", "a\u001b[2Kb\u001b]0;title\u0007c\u001b[3;4Hd").map(({ text }) => text).join("")).toBe("abcd");
  });

  it("know no colours but the sixteen of a terminal", () => {
    expect(pieces("", "\u001b[38;2;1;2;3mx")[0]).toMatchObject({ text: "x", color: null });
  });
});
