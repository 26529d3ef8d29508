/**
 * What is wrong with a script, line by line, as far as its text alone tells: checked at each key. The service checks
 * everything else, with the estimate.
 */

import { text } from "../../texts";
import { fieldOf, type Field } from "./fields";
import { options, type Found, type Option } from "./getopt";
import { head } from "./words";

export interface Finding {
  /** Counted from 1. */
  line: number;
  severity: "error" | "warning";
  message: string;
  field: Field | null;
}

/** More findings are not shown. */
export const MOST_FINDINGS = 100;
const LATE = /^#SBATCH/gm;
const FOREIGN = /^#(?:PBS|BSUB)/m;
const MAX_INTEGER = 2 ** 31 - 2;
const MAX_DAYS = 24_855;

const FORMS: Readonly<Record<NonNullable<Option["kind"]>, RegExp>> = {
  integer: /^\s*[+-]?[0-9]{1,18}$/,
  size: /^\s*\+?[0-9]{1,18}(?:[kKmMgGtT][bB]?)?$/,
  duration:
    /^(?:-1|infinite|unlimited|[0-9]{1,10}-(?:[0-9]{1,10}(?::[0-9]{1,10}){0,2})?|[0-9]{1,10}(?::[0-9]{1,10}){0,2})$/i,
  nodes: /^[0-9kKmM:,\s+-]+$/,
  gpus: /^(?:(?:[A-Za-z0-9_][A-Za-z0-9_.-]*[:=])?[0-9]{1,15}[kKmMgG]?|[A-Za-z][A-Za-z0-9_.-]*)(?:,(?:(?:[A-Za-z0-9_][A-Za-z0-9_.-]*[:=])?[0-9]{1,15}[kKmMgG]?|[A-Za-z][A-Za-z0-9_.-]*))*$/,
};
const EMPTY_IS_NONE = new Set(["gpus"]);
/** Longer values are left to the service. */
const LONGEST_VALUE = 1_000;

export function check(script: string): Finding[] {
  const begin = head(script);
  const { found, problems } = options(begin);
  const findings: Finding[] = problems.map(({ line, reason }) => ({ line, severity: "error", message: reason, field: null }));
  if (!script.startsWith("#!")) findings.push(plain(1, "error", text("submit.check.interpreter")));
  const dos = script.indexOf("\r\n");
  if (dos !== -1) findings.push(plain(lineAt(script, dos), "error", text("submit.check.dos")));
  for (const each of found) {
    if (findings.length >= MOST_FINDINGS) break;
    const finding = ofOption(each);
    if (finding !== null) findings.push(finding);
  }
  if (begin.command !== null) findings.push(...late(script, begin.command, MOST_FINDINGS - findings.length));
  const foreign = FOREIGN.exec(script);
  if (foreign !== null) findings.push(plain(lineAt(script, foreign.index), "warning", text("submit.check.foreign")));
  return findings.toSorted((one, other) => one.line - other.line).slice(0, MOST_FINDINGS);
}

function ofOption({ option, line, value }: Found): Finding | null {
  const field = fieldOf(option.long);
  const name = `--${option.long}`;
  if (option.refused !== undefined) {
    return { line, severity: "error", message: text("submit.check.refused", { name, reason: option.refused }), field };
  }
  const reason = value === null ? null : badValue(option, value);
  if (reason !== null) return { line, severity: "error", message: text("submit.check.value", { name, reason }), field };
  if (option.warning === undefined) return null;
  return { line, severity: "warning", message: text("submit.check.warning", { name, reason: option.warning }), field };
}

/** Why the option does not take the value; null where it does, or where the service has to tell. */
export function badValue({ kind, least = 0 }: Option, value: string): string | null {
  if (kind === undefined || value.length > LONGEST_VALUE || (value === "" && EMPTY_IS_NONE.has(kind))) return null;
  if (!FORMS[kind].test(value)) return text(`submit.check.form.${kind}`);
  if (kind === "integer") {
    if (Number(value) < least) return text("submit.check.least", { least });
    if (Number(value) > MAX_INTEGER) return text("submit.check.most", { most: MAX_INTEGER });
  }
  if (kind === "duration" && Number.parseInt(value, 10) > MAX_DAYS && value.includes("-")) return text("submit.check.too_long");
  return null;
}

/** Lines that look like options, where sbatch does not read them any more. */
function late(script: string, command: { line: number; from: number }, most: number): Finding[] {
  const findings: Finding[] = [];
  let line = command.line;
  let from = command.from;
  LATE.lastIndex = from;
  for (let next = LATE.exec(script); next !== null && findings.length < most; next = LATE.exec(script)) {
    for (let at = script.indexOf("\n", from); at !== -1 && at < next.index; at = script.indexOf("\n", from)) {
      line += 1;
      from = at + 1;
    }
    findings.push(plain(line, "warning", text("submit.check.late", { line: command.line })));
  }
  return findings;
}

function plain(line: number, severity: Finding["severity"], message: string): Finding {
  return { line, severity, message, field: null };
}

function lineAt(script: string, index: number): number {
  let line = 1;
  for (let at = script.indexOf("\n"); at !== -1 && at < index; at = script.indexOf("\n", at + 1)) line += 1;
  return line;
}

const OF_SCRIPT = /line (\d{1,7}) of the script: /g;

/** What the service says of lines of the script, in the text of an error or a warning. */
export function fromService(said: string, severity: Finding["severity"]): Finding[] {
  const marks = [...said.matchAll(OF_SCRIPT)].slice(0, MOST_FINDINGS);
  return marks.map((mark, index) => {
    const message = said.slice(mark.index + mark[0].length, marks[index + 1]?.index).replace(/; (?:and \d+ more)?$/, "");
    const option = /^--([a-z-]+)/.exec(message)?.[1];
    return { line: Number(mark[1]), severity, message, field: option === undefined ? null : fieldOf(option) };
  });
}
