/** A job that is being written: what the page keeps until it is submitted, and the body of its submit. */

import * as v from "valibot";
import type { Submission } from "../api/schema";
import { arrayOf, taskOf } from "../jobs/arrayTasks";
import { text } from "../texts";
import { withoutSecrets } from "../ui/forms/drafts";
import { readForm, withField } from "./script/fields";

export const MOST_FILES = 100;
const LONGEST_PATH = 4096;

export const Draft = v.object({
  script: v.string(),
  /** Lines of the form NAME=VALUE. */
  environment: v.string(),
  /** The folder in the shared folder where the job starts, with its files: for staging. */
  folder: v.string(),
  files: v.pipe(
    v.array(v.object({ source: v.pipe(v.string(), v.maxLength(LONGEST_PATH)), destination: v.string() })),
    v.maxLength(MOST_FILES),
  ),
  results: v.pipe(
    v.array(v.object({ source: v.string(), destination: v.string() })),
    v.maxLength(32),
  ),
  /** The task of an array, such as `42_7`, that is run again alone. */
  task: v.optional(v.string()),
});
export type Draft = v.InferOutput<typeof Draft>;

/** That of the command line: the variables of the person's own shell do not fit the workers. */
const PATH = "PATH=/usr/local/bin:/usr/bin:/bin";
const SCRIPT = `#!/bin/bash
#SBATCH --job-name=hello
#SBATCH --ntasks=1
#SBATCH --time=10

echo "hello from $(hostname)"
`;

export function firstDraft(): Draft {
  return { script: SCRIPT, environment: PATH, folder: "", files: [], results: [] };
}

/** Whether a script would take the place of something that a person has written. */
export function wouldReplace(draft: Draft, script: string): boolean {
  const isEmpty = draft.script.trim() === "" && draft.files.length === 0 && draft.results.length === 0;
  return !isEmpty && !isSame(draft, firstDraft()) && !isSame(draft, { ...firstDraft(), script });
}

function isSame(one: Draft, other: Draft): boolean {
  const keys = ["script", "environment", "folder", "files", "results"] as const;
  return keys.every((key) => JSON.stringify(one[key]) === JSON.stringify(other[key]));
}

/** The draft that runs a job again: a task of an array alone, any other job whole. */
export function rerunOf(script: string, job: string): Draft {
  const task = taskOf(job);
  if (task === null) return { ...firstDraft(), script };
  return { ...firstDraft(), script: withField(script, "array", String(task)), task: job };
}

/** The task of an array that the draft runs alone; null of any other draft, and once its array was written anew. */
export function onlyTask({ script, task = "" }: Pick<Draft, "script" | "task">): { job: string; task: number } | null {
  const number = taskOf(task);
  return number === null || readForm(script).array.value !== String(number) ? null : { job: arrayOf(task), task: number };
}

/** What of it the browser keeps. */
export function keptOf(draft: Draft): Draft {
  return { ...draft, environment: withoutSecrets(draft.environment) };
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*=/;

/** The variables of the lines. What is wrong with the first bad one is in `problem`. */
export function variables(environment: string): { given: string[]; problem: string | null } {
  const given = environment.split("\n").filter((line) => line.trim() !== "");
  const bad = given.find((line) => !VARIABLE.test(line));
  if (bad !== undefined) return { given, problem: text("submit.environment_line", { line: bad.slice(0, 80) }) };
  return { given, problem: given.length === 0 ? text("submit.environment_empty") : null };
}

/** The body of a submit, and of its estimate. */
export function submission(draft: Draft, confirmed: number | null = null): Submission {
  const staged = draft.files.length > 0 || draft.results.length > 0;
  const only = onlyTask(draft);
  return {
    script: draft.script,
    job: {
      environment: variables(draft.environment).given,
      // A field of the job wins over all lines of the script, also over #PBS ones, which the form does not read.
      ...(only === null ? {} : { array: String(only.task) }),
      ...(staged ? { current_working_directory: draft.folder } : {}),
      ...(confirmed === null ? {} : { confirmed_usd_per_hour: confirmed }),
    },
    ...(draft.files.length > 0 ? { stage_in: draft.files } : {}),
    ...(draft.results.length > 0 ? { stage_out: draft.results } : {}),
  };
}

/** A draft with one more file of the bucket, in a folder that the job then needs. */
export function withFile(draft: Draft, source: string): Draft {
  if (draft.files.length >= MOST_FILES || draft.files.some((each) => each.source === source)) return draft;
  const name = source.slice(source.lastIndexOf("/") + 1);
  return { ...draft, folder: draft.folder || newFolder(), files: [...draft.files, { source, destination: name }] };
}

/** A folder that no other job uses. */
export function newFolder(): string {
  return `run-${crypto.randomUUID().slice(0, 8)}`;
}
