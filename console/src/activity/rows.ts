/** Events as rows: what happened, to what, by whom, and the page of what it happened to. */

import * as v from "valibot";
import { isHeld } from "../jobs/bulk/plan";
import { endingOf } from "../jobs/job/ending";
import type { EventRecord } from "../live/event";
import { text } from "../texts";
import { count, money } from "../ui/format";
import { reasonWord } from "../ui/reasonWord";
import { stateWord } from "../ui/stateWord";

/** Where an event leads to. */
export type Target =
  | { page: "job"; job: string }
  | { page: "run"; run: string }
  | { page: "fleet"; worker: string | null }
  | { page: "files"; path: string }
  | { page: "templates"; template: string }
  | { page: "admin"; section: string }
  | { page: "costs" }
  | null;

export interface ActivityRow {
  id: string;
  at: string;
  kind: string;
  subject: string;
  who: string;
  details: string;
  target: Target;
}

const Data = v.object({
  kind: v.string(),
  job_id: v.optional(v.string()),
  run_id: v.optional(v.string()),
  name: v.optional(v.string(), ""),
  user: v.optional(v.string(), ""),
  actor: v.optional(v.string(), ""),
  state: v.optional(v.string(), ""),
  reason: v.optional(v.string(), ""),
  message: v.optional(v.string(), ""),
  detail: v.optional(v.string(), ""),
  tasks: v.optional(v.string(), ""),
  before: v.optional(v.string(), ""),
  after: v.optional(v.string(), ""),
  worker: v.optional(v.string()),
  node: v.optional(v.string()),
  nodes: v.optional(v.array(v.string()), []),
  shape: v.optional(v.string(), ""),
  exit_code: v.nullish(v.number()),
  paths: v.optional(v.array(v.string()), []),
  destination: v.optional(v.string(), ""),
  changes: v.optional(
    v.array(
      v.object({
        shape: v.string(),
        replicas_before: v.number(),
        replicas_after: v.number(),
        reason: v.optional(v.string(), ""),
      }),
    ),
    [],
  ),
  direction: v.optional(v.string(), ""),
  files: v.optional(v.number()),
  steps: v.optional(v.record(v.string(), v.number()), {}),
  failed_step: v.optional(v.string(), ""),
  failed_files: v.optional(v.number(), 0),
  percent: v.optional(v.number(), 0),
  measure: v.optional(v.picklist(["actual", "forecast"]), "actual"),
  micro_usd: v.optional(v.number(), 0),
  limit_micro_usd: v.optional(v.number(), 0),
});

type Data = v.InferOutput<typeof Data>;

/** The row of an event. An event whose data cannot be read has its kind and subject alone. */
export function rowOf(event: EventRecord): ActivityRow {
  const read = v.safeParse(Data, event.data);
  const data = read.success ? read.output : null;
  return {
    id: event.id,
    at: event.time,
    kind: event.data.kind,
    subject: data === null ? event.subject : subjectOf(event, data),
    who: data === null ? "" : whoOf(data),
    details: data === null ? "" : detailsOf(data),
    target: data === null ? null : targetOf(event, data),
  };
}

/** The first part of a kind: `job` of `job.failed`. */
export function groupOf(kind: string): string {
  return kind.slice(0, Math.max(0, kind.indexOf(".")));
}

function subjectOf(event: EventRecord, data: Data): string {
  if (data.job_id !== undefined) return `${data.job_id} ${data.name}`.trim();
  if (data.run_id !== undefined) return data.name || data.run_id;
  if (data.paths.length > 0) return data.paths.length === 1 ? (data.paths[0] ?? "") : `${data.paths[0]} +${data.paths.length - 1}`;
  return data.worker ?? data.node ?? event.subject;
}

function whoOf(data: Data): string {
  if (data.actor !== "") return data.actor;
  return ["job", "run"].includes(groupOf(data.kind)) ? data.user : "";
}

function detailsOf(data: Data): string {
  switch (groupOf(data.kind)) {
    case "job":
      if (data.kind === "job.staged") return `${data.direction} ${data.files ?? 0}${data.failed_files > 0 ? `, ✕ ${data.failed_files}` : ""}`;
      return jobDetails(data);
    case "action":
      return [data.tasks, data.detail].filter(Boolean).join(" · ");
    case "run":
      return runDetails(data);
    case "scale":
      return data.changes
        .map((change) => `${change.shape} ${change.replicas_before} → ${change.replicas_after}${change.reason ? `: ${change.reason}` : ""}`)
        .join("; ");
    case "worker":
    case "node":
      return [data.shape, data.reason].filter(Boolean).join(" · ");
    case "budget":
      // What was changed of a budget has no measure.
      if (data.kind !== "budget.threshold") return data.detail;
      return text(`activity.budget_${data.measure}`, { percent: count(data.percent), costs: money(data.micro_usd / 1e6), limit: money(data.limit_micro_usd / 1e6) });
    case "file":
      return data.destination === "" ? "" : `→ ${data.destination}`;
    default:
      return [data.message, data.reason, data.before && data.after ? `${data.before} → ${data.after}` : data.detail]
        .filter(Boolean)
        .join(" · ");
  }
}

/** The state of a job as all pages tell it, with what else is known of it. */
function jobDetails({ state, reason, exit_code, nodes }: Data): string {
  const why = isHeld({ reason }) ? reasonWord(reason) : causeOf({ state, reason });
  const code = exit_code ? text("job.ending.code", { code: exit_code }) : "";
  return [state && stateWord(state), why, code, nodes.join(", ")].filter(Boolean).join(" · ");
}

/** Why a job failed, where its state alone tells it. */
function causeOf(job: { state: string; reason: string }): string {
  const cause = endingOf(job)?.cause;
  switch (cause) {
    case "memory":
    case "time":
    case "deadline":
    case "worker_lost":
    case "worker_boot":
    case "files":
      return text(`job.ending.${cause}`);
    default:
      return "";
  }
}

/** Which step of a run failed first, and how many steps ended how. */
function runDetails(data: Data): string {
  const ends = Object.entries(data.steps).map(([state, steps]) => `${count(steps)} ${stepState(state)}`);
  return [data.failed_step && text("activity.run.failed_step", { step: data.failed_step }), ends.join(", ")].filter(Boolean).join(" · ");
}

/** The word of a step's state; a newer release may have others. */
function stepState(state: string): string {
  switch (state) {
    case "completed":
    case "failed":
    case "cancelled":
    case "rejected":
    case "not_submitted":
    case "unknown":
      return text(`activity.run.${state}`);
    default:
      return state;
  }
}

function targetOf(event: EventRecord, data: Data): Target {
  if (data.job_id !== undefined) return { page: "job", job: data.job_id };
  if (data.run_id !== undefined) return { page: "run", run: data.run_id };
  switch (groupOf(data.kind)) {
    case "worker":
    case "node":
      return { page: "fleet", worker: data.worker ?? data.node ?? null };
    case "scale":
    case "cluster":
      return { page: "fleet", worker: null };
    case "file":
      return { page: "files", path: data.destination || (data.paths[0] ?? "") };
    case "template":
      return { page: "templates", template: event.subject };
    case "quota":
    case "budget":
      return { page: "costs" };
    case "member":
    case "user":
    case "invitation":
      return { page: "admin", section: "members" };
    case "link":
      return data.detail === "" ? null : { page: "job", job: data.detail };
    case "token":
      return { page: "admin", section: "tokens" };
    default:
      return null;
  }
}
