import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { pythonString, shellWord, snippets } from "./snippets";

const HOSTILE = [
  "plain",
  "",
  "two words",
  "it's",
  "'; touch /tmp/owned; '",
  "$(id) `id` $HOME \\ \" !x",
  "-rf",
  "line\nend\r\ttab",
  "\u001b[31m\u202eevil\u2028",
  "ü€😀",
  "a'\n'b\\",
  "!!\n'fa'c!7'",
];

describe("quoting", () => {
  it("gives a shell exactly the word, on one line", () => {
    for (const value of HOSTILE) {
      const word = shellWord(value);
      expect(word).not.toMatch(/[\n\r]/);
      expect(execFileSync("bash", ["-c", `printf %s ${word}`]).toString()).toBe(value);
    }
  });

  it("has no quote and no `!` within the quotes of C", () => {
    expect(shellWord("a'!\n'!")).toBe("$'a\\x27\\x21\\x0a\\x27\\x21'");
  });

  it("gives Python exactly the string, on one line", () => {
    const literals = HOSTILE.map(pythonString);
    for (const literal of literals) expect(literal).toMatch(/^[\x20-\x7e]*$/);
    const program = `import json; print(json.dumps([${literals.join(",")}]))`;
    expect(JSON.parse(execFileSync("python3", ["-S", "-c", program]).toString())).toEqual(HOSTILE);
  }, 30_000);
});

describe("the same by other means", () => {
  it("holds a hostile name as one argument", () => {
    for (const name of HOSTILE) {
      const [cli] = snippets({ origin: "https://c.example", cluster: "main", job: "42_7", name });
      const script = `clusterra() { printf '%s\\0' "$#" "$@"; }\n${cli?.code ?? ""}`;
      const told = execFileSync("bash", ["-c", script]).toString().split("\0");
      if (name !== "") expect(told).toContain(`--name=${name}`);
      expect(told.filter((each) => /^\d$/.test(each))).toEqual(["4", "4", "5", "4", ...(name === "" ? [] : ["4"])]);
    }
  });
});
