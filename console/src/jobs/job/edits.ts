/** What of a job can be changed, and what a form of it changes. */

import type { Job, RequestedChanges } from "../../api/schema";

export type Field = "name" | "time_limit" | "nice" | "partition" | "qos" | "dependency" | "constraints" | "memory_per_node" | "tasks";
export type Edits = Record<Field, string>;

/** In their order in the form. Times are minutes, memory is MiB, as the API takes them. */
export const FIELDS: readonly Field[] = ["name", "time_limit", "memory_per_node", "tasks", "partition", "qos", "constraints", "dependency", "nice"];
const NUMBERS: ReadonlySet<Field> = new Set(["time_limit", "nice", "memory_per_node", "tasks"]);
/** What can be changed only while the job waits. */
const WAITING: ReadonlySet<Field> = new Set(["memory_per_node", "tasks", "partition", "qos", "constraints", "dependency", "nice"]);

export function fieldsOf(waits: boolean): Field[] {
  return FIELDS.filter((field) => waits || !WAITING.has(field));
}

export function isNumber(field: Field): boolean {
  return NUMBERS.has(field);
}

/** The form as it begins: what the job has. What the API does not tell of a job begins empty. */
export function editsOf(job: Job): Edits {
  return {
    name: job.name,
    time_limit: job.time_limit_seconds ? String(Math.ceil(job.time_limit_seconds / 60)) : "",
    memory_per_node: job.memory_per_node_mib ? String(job.memory_per_node_mib) : "",
    tasks: job.tasks ? String(job.tasks) : "",
    partition: job.partition,
    qos: job.qos ?? "",
    constraints: job.constraints ?? "",
    dependency: "",
    nice: "",
  };
}

/** The changes between two states of the form. An emptied field changes nothing, because Slurm cannot take it away. */
export function changesOf(before: Edits, after: Edits): RequestedChanges {
  const changes: Record<string, string | number> = {};
  for (const field of FIELDS) {
    const value = after[field].trim();
    if (value === "" || value === before[field].trim()) continue;
    if (!NUMBERS.has(field)) changes[field] = value;
    else if (Number.isSafeInteger(Number(value))) changes[field] = Number(value);
  }
  return changes;
}
