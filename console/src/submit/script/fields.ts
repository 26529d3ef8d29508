/**
 * The form's view of a script: `#SBATCH` lines are its only store. A field reads the option that counts, and writes it in
 * place; everything else of the script stays as it is, byte for byte.
 */

import { options, type Found } from "./getopt";
import { head, quoted } from "./words";

export const FIELDS = [
  "name",
  "time",
  "tasks",
  "cpus",
  "nodes",
  "memory",
  "gpus",
  "partition",
  "account",
  "array",
  "directory",
  "output",
] as const;
export type Field = (typeof FIELDS)[number];

/** The options of each field. The first is written where the script has none of them. */
const OPTIONS_OF: Readonly<Record<Field, readonly [string, ...string[]]>> = {
  name: ["job-name"],
  time: ["time"],
  tasks: ["ntasks"],
  cpus: ["cpus-per-task"],
  nodes: ["nodes"],
  memory: ["mem", "mem-per-cpu", "mem-per-gpu"],
  gpus: ["gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"],
  partition: ["partition"],
  account: ["account"],
  array: ["array"],
  directory: ["chdir"],
  output: ["output"],
};

/** The field that shows an option. */
export function fieldOf(option: string): Field | null {
  return FIELDS.find((field) => OPTIONS_OF[field].includes(option)) ?? null;
}

export interface FieldValue {
  /** Empty where the script has no such option. */
  value: string;
  /** The name of the option, without hyphens, that the script has or would get. */
  option: string;
}

export type Form = Readonly<Record<Field, FieldValue>>;

export function readForm(script: string): Form {
  const { found } = options(head(script));
  return Object.fromEntries(
    FIELDS.map((field) => {
      const last = counting(found, field);
      return [field, { value: last?.value ?? "", option: last?.option.long ?? OPTIONS_OF[field][0] }];
    }),
  ) as unknown as Form;
}

/** The script with another value of a field; an empty one takes the option out. A line break in a value becomes a blank. */
export function withField(script: string, field: Field, given: string): string {
  // No text of one line holds these.
  const value = given.replace(/[\n\r\0]+/g, " ");
  const { found } = options(head(script));
  const last = counting(found, field);
  if ((last?.value ?? "") === value) return script;
  if (value === "") return withoutField(script, field);
  if (last !== undefined && last.valueWord !== null) {
    const changed = replaced(script, last, value);
    if (readForm(changed)[field].value === value) return changed;
  }
  return inserted(script, field, value);
}

/** The last one wins, as in sbatch. */
function counting(found: readonly Found[], field: Field): Found | undefined {
  return found.findLast(({ option }) => OPTIONS_OF[field].includes(option.long));
}

function replaced(script: string, { before, valueWord }: Found, value: string): string {
  if (valueWord === null) return script;
  return script.slice(0, valueWord.from) + written(before, value) + script.slice(valueWord.to);
}

/** Text for a word that begins with the name of an option, or for a value that is a word of its own. */
function written(before: string, value: string): string {
  return before === "" ? quoted(value) : before + quoted(value);
}

function inserted(script: string, field: Field, value: string): string {
  const line = `#SBATCH --${OPTIONS_OF[field][0]}=${quoted(value)}`;
  const { directives } = head(script);
  if (directives !== null) {
    const behind = `${script.slice(0, directives.to)}\n${line}${script.slice(directives.to)}`;
    if (readForm(behind)[field].value === value) return behind;
    // What the last line says reaches into the next one, or nothing is read behind it.
    return `${script.slice(0, directives.from)}${line}\n${script.slice(directives.from)}`;
  }
  if (!script.startsWith("#")) return `${line}\n${script}`;
  const end = script.indexOf("\n");
  return end === -1 ? `${script}\n${line}\n` : `${script.slice(0, end + 1)}${line}\n${script.slice(end + 1)}`;
}

function withoutField(script: string, field: Field): string {
  const found = options(head(script)).found.filter(({ option }) => OPTIONS_OF[field].includes(option.long));
  // From the end, so that the places before stay right.
  return found.reduceRight((text, each) => without(text, each), script);
}

function without(script: string, { word, before, value, valueWord, option }: Found): string {
  if (word.text.startsWith("--")) {
    const text = valueWord === null || valueWord === word ? script : cut(script, valueWord.from, valueWord.to);
    return cut(text, word.from, word.to);
  }
  // Of a word of letters the others stay.
  const others = before === "" ? word.text.replace(option.short, "") : before.slice(0, -1);
  const text = valueWord === null || valueWord === word || value === null ? script : cut(script, valueWord.from, valueWord.to);
  if (others === "-") return cut(text, word.from, word.to);
  return text.slice(0, word.from) + others + text.slice(word.to);
}

/** Without a word, the blanks before it, and its line where nothing else is there. */
function cut(script: string, from: number, to: number): string {
  let begin = from;
  while (script[begin - 1] === " " || script[begin - 1] === "\t") begin -= 1;
  const lineFrom = script.lastIndexOf("\n", begin - 1) + 1;
  const end = script.indexOf("\n", to);
  const lineTo = end === -1 ? script.length : end;
  const before = script.slice(lineFrom, begin);
  const behind = script.slice(to, lineTo);
  if ((before === "#SBATCH" || before === "#SLURM") && behind.trim() === "") {
    return script.slice(0, lineFrom) + script.slice(end === -1 ? script.length : end + 1);
  }
  // A line of its own may begin without a blank before its first word.
  return script.slice(0, begin) + (behind !== "" && begin === from ? " " : "") + script.slice(to);
}
