/**
 * Finds the words of a script's `#SBATCH` lines, character by character as sbatch does, with the places where they stand.
 * The same rules as in `clusterra_sbatch.words`; #PBS and #BSUB lines are left to the service.
 */

/** A word of a line with options. `from` and `to` are its place in the script, quotes included. */
export interface Word {
  /** Counted from 1. */
  line: number;
  from: number;
  to: number;
  text: string;
}

export interface Problem {
  line: number;
  reason: string;
}

export interface Head {
  words: Word[];
  problems: Problem[];
  /** Where the first and the last line with options begin and end; null without such a line. */
  directives: { from: number; to: number } | null;
  /** The line of the first command, counted from 1, and where it begins; null where there is none. */
  command: { line: number; from: number } | null;
}

/** More words of options are not looked at here: the service is. */
export const MOST_WORDS = 10_000;
/** A longer line is not looked at here either. */
export const LONGEST_LINE = 64 * 1024;
const PREFIXES = ["#SBATCH", "#SLURM"];
const SEPARATORS = ["hetjob", "packjob"];
const BLANK = /[ \t\n\v\f\r]/;
const BEGINNING = /[^ \t\v\f\r]/;

export function head(script: string): Head {
  const found: Head = { words: [], problems: [], directives: null, command: null };
  let from = 0;
  let reading = true;
  for (let line = 1; from <= script.length; line += 1) {
    const end = script.indexOf("\n", from);
    const to = end === -1 ? script.length : end;
    if (isCommand(script, from, to)) {
      found.command = { line, from };
      break;
    }
    const prefix = PREFIXES.find((each) => script.startsWith(each, from) && from + each.length <= to);
    if (prefix !== undefined) {
      found.directives = { from: found.directives?.from ?? from, to };
      if (reading) reading = readLine(script, { line, from: from + prefix.length, to }, found);
    }
    if (end === -1) break;
    from = end + 1;
  }
  return found;
}

/** Whether this line ends the options: it has something that is no comment. */
function isCommand(script: string, from: number, to: number): boolean {
  if (from === to || script[from] === "#") return false;
  let at = from;
  while (at < to && !BEGINNING.test(script[at] as string)) at += 1;
  return at < to && script[at] !== "#";
}

interface Line {
  line: number;
  from: number;
  to: number;
}

/** Adds the words of a line. False where nothing may be read behind it. */
function readLine(script: string, { line, from, to }: Line, found: Head): boolean {
  if (to - from > LONGEST_LINE) {
    found.problems.push({ line, reason: "the line is too long to be checked here" });
    return true;
  }
  let at = from;
  while (at < to && BLANK.test(script[at] as string)) at += 1;
  if (separates(script, at, to)) {
    found.problems.push({ line, reason: "a script has the options of one component" });
    return false;
  }
  const words: Word[] = [];
  const reason = split(script, { line, from, to }, words);
  if (reason === null) found.words.push(...words.slice(0, MOST_WORDS - found.words.length));
  else found.problems.push({ line, reason });
  if (found.words.length < MOST_WORDS) return true;
  found.problems.push({ line, reason: "there are more options than are checked here" });
  return false;
}

/** Splits a line into words. The reason why it cannot be read, or null. */
function split(script: string, { line, from, to }: Line, words: Word[]): string | null {
  let at = from;
  while (words.length < MOST_WORDS) {
    while (at < to && BLANK.test(script[at] as string)) at += 1;
    if (at === to || separates(script, at, to)) return null;
    if (script[at] === ":") return "a word cannot begin with `:`";
    const word = readWord(script, at, to);
    if (word.open !== "") return `the quote ${word.open} is not closed`;
    // An empty word ends the line: sbatch reads nothing behind it.
    if (word.text === "") return null;
    words.push({ line, from: at, to: word.to, text: word.text });
    at = word.to;
  }
  return null;
}

/** A backslash protects one character, within quotes too. A comment begins at any `#` outside them. */
function readWord(script: string, from: number, to: number): { text: string; to: number; open: string } {
  const text: string[] = [];
  let open = "";
  let protectedOne = false;
  let at = from;
  for (; at < to; at += 1) {
    const character = script[at] as string;
    if (open === "" && BLANK.test(character)) break;
    if (!protectedOne) {
      if (character === "\\") {
        // A protected blank does not end the word, which another protected character does.
        if (script[at + 1] === " " && at + 1 < to) {
          text.push(" ");
          at += 1;
        } else protectedOne = true;
        continue;
      }
      if (character === open) {
        open = "";
        continue;
      }
      if (open === "" && (character === '"' || character === "'")) {
        open = character;
        continue;
      }
      if (open === "" && character === "#") break;
    }
    protectedOne = false;
    text.push(character);
  }
  return { text: text.join(""), to: at, open };
}

/** Whether the word here separates the components of a heterogeneous job. */
function separates(script: string, at: number, to: number): boolean {
  return SEPARATORS.some((each) => {
    const end = at + each.length;
    return end <= to && script.slice(at, end).toLowerCase() === each && (end === to || BLANK.test(script[end] as string));
  });
}

const PLAIN = /^[A-Za-z0-9_./@%+,=~[\]*^-][A-Za-z0-9_./:@%+,=~[\]*^-]*$/;

/** A value as part of a line, so that reading gives it back. It has no line break. */
export function quoted(value: string): string {
  if (PLAIN.test(value) && !SEPARATORS.includes(value.toLowerCase())) return value;
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}
