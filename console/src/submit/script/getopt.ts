/** Reads words as options and values by the rules of getopt_long(3), with which sbatch reads them. */

import table from "./options.json";
import { MOST_WORDS, type Head, type Problem, type Word } from "./words";

export interface Option {
  long: string;
  short: string;
  takes: "none" | "required" | "optional";
  /** Why the service refuses it, whatever its value. */
  refused?: string;
  /** What is said where it is accepted without its effect. */
  warning?: string;
  kind?: "integer" | "size" | "duration" | "nodes" | "gpus";
  least?: number;
}

/** An option of a script with its value. */
export interface Found {
  option: Option;
  line: number;
  value: string | null;
  /** The word that names it. A word of several letters names several options. */
  word: Word;
  /** What stands before the value in the word that has the value, such as `--time=` or `-Hn`; empty in a word of its own. */
  before: string;
  /** The word that has the value: that of the name, or the next one. */
  valueWord: Word | null;
}

export const OPTIONS: Readonly<Record<string, Option>> = table as Record<string, Option>;
const SHORT = new Map(Object.values(OPTIONS).flatMap((option) => (option.short === "" ? [] : [[option.short, option]])));
const NAMES = Object.keys(OPTIONS);

/** The options in order, and what is wrong. The first problem of a line ends it. */
export function options({ words, problems }: Head): { found: Found[]; problems: Problem[] } {
  const found: Found[] = [];
  const wrong = [...problems];
  let at = 0;
  while (at < words.length && found.length < MOST_WORDS) {
    const word = words[at] as Word;
    at += 1;
    if (word.text === "--") {
      const next = words[at];
      if (next !== undefined) wrong.push({ line: next.line, reason: `${next.text} is not an option` });
      break;
    }
    const read = one(word, words[at]);
    found.push(...read.found);
    if (read.tookNext) at += 1;
    if (read.problem !== null) {
      wrong.push({ line: word.line, reason: read.problem });
      while (words[at]?.line === word.line) at += 1;
    }
  }
  return { found, problems: wrong };
}

interface Read {
  found: Found[];
  tookNext: boolean;
  problem: string | null;
}

function one(word: Word, next: Word | undefined): Read {
  if (word.text.startsWith("--")) return long(word, next);
  if (word.text.startsWith("-") && word.text !== "-") return letters(word, next);
  return { found: [], tookNext: false, problem: `${word.text.slice(0, 100)} is not an option` };
}

function long(word: Word, next: Word | undefined): Read {
  const equals = word.text.indexOf("=");
  const name = equals === -1 ? word.text.slice(2) : word.text.slice(2, equals);
  const option = byName(name);
  if (typeof option === "string") return { found: [], tookNext: false, problem: option };
  const base = { option, line: word.line, word };
  if (equals !== -1) {
    if (option.takes === "none") return { found: [], tookNext: false, problem: `--${option.long} takes no value` };
    const before = word.text.slice(0, equals + 1);
    return { found: [{ ...base, value: word.text.slice(equals + 1), before, valueWord: word }], tookNext: false, problem: null };
  }
  if (option.takes !== "required") {
    return { found: [{ ...base, value: null, before: "", valueWord: null }], tookNext: false, problem: null };
  }
  if (next === undefined) return { found: [], tookNext: false, problem: `--${option.long} needs a value` };
  return { found: [{ ...base, value: next.text, before: "", valueWord: next }], tookNext: true, problem: null };
}

function letters(word: Word, next: Word | undefined): Read {
  const found: Found[] = [];
  for (let at = 1; at < word.text.length && found.length < MOST_WORDS; at += 1) {
    const letter = word.text[at] as string;
    const option = SHORT.get(letter) as Option | undefined;
    if (option === undefined) return { found, tookNext: false, problem: `sbatch has no option -${letter}` };
    const base = { option, line: word.line, word };
    if (option.takes === "none") {
      found.push({ ...base, value: null, before: "", valueWord: null });
      continue;
    }
    const rest = word.text.slice(at + 1);
    if (rest !== "" || option.takes === "optional") {
      found.push({ ...base, value: rest === "" ? null : rest, before: word.text.slice(0, at + 1), valueWord: word });
      return { found, tookNext: false, problem: null };
    }
    if (next === undefined) return { found, tookNext: false, problem: `-${letter} needs a value` };
    found.push({ ...base, value: next.text, before: "", valueWord: next });
    return { found, tookNext: true, problem: null };
  }
  return { found, tookNext: false, problem: null };
}

/** An option by its name, or by a prefix that only it has; or why there is none. */
function byName(name: string): Option | string {
  const exact = Object.hasOwn(OPTIONS, name) ? OPTIONS[name] : undefined;
  if (exact !== undefined) return exact;
  const matching = name === "" ? [] : NAMES.filter((each) => each.startsWith(name));
  const longs = new Set(matching.map((each) => OPTIONS[each]?.long));
  if (longs.size === 1) return OPTIONS[matching[0] as string] as Option;
  if (longs.size > 1) return `--${name} is ambiguous: ${matching.map((each) => `--${each}`).join(", ")}`;
  return `sbatch has no option --${name.slice(0, 100)}`;
}
