import { describe, expect, it } from "vitest";
import { check, fromService } from "./checker";
import { FIELDS, readForm, withField, type Field } from "./fields";
import { options } from "./getopt";
import { head } from "./words";

/** A generator of numbers that are the same in each run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function pick<T>(next: () => number, all: readonly T[]): T {
  return all[Math.floor(next() * all.length)] as T;
}

const LINES = [
  "#SBATCH --time=5 --mem 4G",
  "#SBATCH -n4 -J 'my job' # why",
  "#SBATCH --nodelist=w[1-3] --signal=USR1@60",
  "#SBATCH --exclusive",
  "#SBATCH",
  "#SBATCH --time",
  '#SBATCH --job-name="open',
  "#SBATCH -- --time=3",
  "#SBATCH --foo=3 --ntasks=2",
  "#SBATCH hetjob",
  "#SBATCH --gpus-per-node=h100:2",
  "#SBATCH -Hn3",
  "#SLURM --partition=x",
  "#SBATCH--array=1-3",
  "# a comment: ä 🐢",
  "",
  "   # blank before",
  "#SBATCH --mem-per-cpu=1G\t-A x",
];
const CHARACTERS = ["a", "Z", "0", " ", "  ", "\"", "'", "\\", "#", ":", "=", "-", "%j", "\t", "🐢", "\u202e", "hetjob", "/"];

function script(next: () => number): string {
  const lines = Array.from({ length: Math.floor(next() * 8) }, () => pick(next, LINES));
  const first = next() < 0.9 ? ["#!/bin/bash"] : [];
  const rest = next() < 0.7 ? ["sleep 1", "#SBATCH --time=99", "echo '#SBATCH'"] : [];
  return [...first, ...lines, ...rest].join("\n") + (next() < 0.5 ? "\n" : "");
}

function value(next: () => number): string {
  return Array.from({ length: 1 + Math.floor(next() * 6) }, () => pick(next, CHARACTERS)).join("");
}

describe("the script and the form", () => {
  it("gives back what the form wrote, and nothing else changes", () => {
    const next = random(7);
    for (let round = 0; round < 4_000; round += 1) {
      const before = script(next);
      const field = pick(next, FIELDS);
      const wanted = value(next);
      const after = withField(before, field, wanted);
      expect(readForm(after)[field].value, JSON.stringify({ before, field, wanted, after })).toBe(wanted);
      expect(withField(after, field, wanted)).toBe(after);
      for (const other of FIELDS.filter((each) => each !== field && !reaches(before))) {
        expect(readForm(after)[other], JSON.stringify({ before, field, wanted, after, other })).toEqual(readForm(before)[other]);
      }
    }
  });

  it("keeps every line byte for byte that has no option of the field", () => {
    const next = random(11);
    for (let round = 0; round < 2_000; round += 1) {
      const before = script(next);
      const field = pick(next, FIELDS);
      const after = withField(before, field, value(next));
      const touched = new Set(options(head(before)).found.filter((each) => shows(field, each.option.long)).flatMap((each) => [each.line, each.valueWord?.line]));
      const kept = before.split("\n").filter((_, index) => !touched.has(index + 1));
      const left = after.split("\n");
      let at = 0;
      for (const line of kept) {
        at = left.indexOf(line, at);
        expect(at, JSON.stringify({ before, after, line })).not.toBe(-1);
        at += 1;
      }
    }
  });

  it("takes an option out wherever it stands", () => {
    const next = random(13);
    for (let round = 0; round < 2_000; round += 1) {
      const before = script(next);
      const field = pick(next, FIELDS);
      const after = withField(before, field, "");
      expect(readForm(after)[field].value, JSON.stringify({ before, field, after })).toBe("");
    }
  });

  it.each<[string, Field, string, string]>([
    ["#!/bin/bash\n#SBATCH --time=5 # limit\nls\n", "time", "10", "#!/bin/bash\n#SBATCH --time=10 # limit\nls\n"],
    ["#!/bin/bash\n#SBATCH --time=5\nls\n", "time", "", "#!/bin/bash\nls\n"],
    ["#!/bin/bash\n#SBATCH -Hn4\nls\n", "tasks", "8", "#!/bin/bash\n#SBATCH -Hn8\nls\n"],
    ["#!/bin/bash\n#SBATCH -Hn4\nls\n", "tasks", "", "#!/bin/bash\n#SBATCH -H\nls\n"],
    ["#!/bin/bash\n#SBATCH -t 5 -n 4\nls\n", "time", "", "#!/bin/bash\n#SBATCH -n 4\nls\n"],
    ["#!/bin/bash\nls\n", "name", "my job", '#!/bin/bash\n#SBATCH --job-name="my job"\nls\n'],
    ["", "name", "a", "#SBATCH --job-name=a\n"],
    ["#!/bin/bash\n#SBATCH --mem-per-cpu=1G\n", "memory", "2G", "#!/bin/bash\n#SBATCH --mem-per-cpu=2G\n"],
    ["#!/bin/bash\nls\n#SBATCH --time=5\n", "time", "6", "#!/bin/bash\n#SBATCH --time=6\nls\n#SBATCH --time=5\n"],
  ])("%j with %s=%s", (before, field, wanted, after) => {
    expect(withField(before, field, wanted)).toBe(after);
  });
});

function shows(field: Field, option: string): boolean {
  return readForm(`#SBATCH --${option}=1`)[field].value === "1";
}

/** Whether a value of one line is taken for that of the option before: a new line in between may change what is read. */
function reaches(before: string): boolean {
  return /--time$|"open| -- |hetjob|--foo/m.test(before);
}

describe("the checker", () => {
  it("finds what is wrong at its line", () => {
    const found = check("#!/bin/bash\n#SBATCH --foo\n#SBATCH --time=x\n#SBATCH --uid=1 --comment=a\nls\n\n#SBATCH --mem=1G\n");
    expect(found.map(({ line, severity }) => [line, severity])).toEqual([
      [2, "error"],
      [3, "error"],
      [4, "error"],
      [4, "warning"],
      [7, "warning"],
    ]);
    expect(found[1]?.field).toBe("time");
  });

  it("says nothing of a good script", () => {
    expect(check("#!/bin/bash\n#SBATCH --time=1-02:00 -n4 --mem=4G --nodes=2-4 --gpus=h100:2 --array=1-3\nls\n")).toEqual([]);
  });

  it("reads what the service says of lines", () => {
    const said = "line 2 of the script: sbatch has no option --foo; line 3 of the script: --time=x: must be a time; and 3 more";
    expect(fromService(said, "error")).toEqual([
      { line: 2, severity: "error", message: "sbatch has no option --foo", field: null },
      { line: 3, severity: "error", message: "--time=x: must be a time", field: "time" },
    ]);
  });

  /** Of the processor, so that a busy machine changes nothing. By the square of the length it would be minutes. */
  const MOST_MICROSECONDS = 10_000_000;

  it("is quick and bounded with hostile scripts", () => {
    const million = "x".repeat(1_000_000);
    const scripts = [
      `#!/bin/bash\n${"#SBATCH --foo\n".repeat(100_000)}`,
      `#!/bin/bash\n${"# comment\n".repeat(100_000)}ls\n`,
      `#!/bin/bash\nls\n${"#SBATCH --time=1\n".repeat(100_000)}`,
      `#!/bin/bash\n#SBATCH ${"-H ".repeat(333_333)}\n`,
      `#!/bin/bash\n#SBATCH -${"H".repeat(1_000_000)}\n`,
      `#!/bin/bash\n#SBATCH --time=${million}\n`,
      `#!/bin/bash\n#SBATCH --${million}\n`,
      `#!/bin/bash\n#SBATCH "${million}\n`,
      `#!/bin/bash\n#SBATCH --gpus=${"a:1,".repeat(250_000)}!\n`,
      `#!/bin/bash\n${" ".repeat(1_000_000)}#SBATCH\n`,
      `#!/bin/bash\n${"\r\n".repeat(500_000)}`,
    ];
    for (const each of scripts) {
      const begin = process.cpuUsage();
      expect(check(each).length).toBeLessThanOrEqual(100);
      readForm(withField(each, "name", "a"));
      expect(process.cpuUsage(begin).user, each.slice(0, 40)).toBeLessThan(MOST_MICROSECONDS);
    }
  }, 120_000);
});
