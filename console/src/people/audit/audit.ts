/** The audit of a cluster: read as a stream of lines up to a bound, each checked by itself. */

import { queryOptions } from "@tanstack/react-query";
import * as v from "valibot";
import { api, body } from "../../api/client";
import { STALE_MS } from "../../api/queries";
import { contains } from "../queries";

const AuditEntry = v.object({
  time: v.string(),
  actor: v.string(),
  action: v.string(),
  subject: v.optional(v.string(), ""),
  owner: v.optional(v.string(), ""),
  detail: v.optional(v.string(), ""),
  event_id: v.string(),
});

export type AuditEntry = v.InferOutput<typeof AuditEntry>;

export interface Audit {
  /** The newest first. */
  entries: AuditEntry[];
  /** The time span has more entries than are read. */
  cut: boolean;
  /** Lines that could not be read. */
  unreadable: number;
}

/** The most entries that a page shows; an export has all. */
export const MOST_ENTRIES = 10_000;
const LONGEST_LINE = 100_000;

/** A span of days in the viewer's zone, both included, as the API takes it. */
export function span(from: string, to: string): { after: string; before: string } {
  const last = new Date(`${to}T00:00:00`);
  last.setDate(last.getDate() + 1);
  return { after: new Date(`${from}T00:00:00`).toISOString(), before: last.toISOString() };
}

/** What a page of the audit shows. */
export interface Shown {
  from: string;
  to: string;
  /** An action, or a group of them, such as `quota.`. */
  action?: string | undefined;
  find?: string | undefined;
}

/** The parameters with which the API exports what is shown. */
export function exported({ from, to, action, find }: Shown, format: "csv" | "ndjson"): URLSearchParams {
  return new URLSearchParams({
    format,
    ...span(from, to),
    ...(action === undefined ? {} : { kind: action.endsWith(".") ? `${action}*` : action }),
    ...(find?.trim() ? { search: find.trim() } : {}),
  });
}

/** A day in the viewer's zone, so many days ago. */
export function dayBefore(days: number, now = new Date()): string {
  const day = new Date(now.getFullYear(), now.getMonth(), now.getDate() - days);
  return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

export function auditQuery(cluster: string, from: string, to: string) {
  return queryOptions({
    queryKey: ["people", "audit", cluster, from, to],
    staleTime: STALE_MS,
    queryFn: async ({ signal }) => {
      const params = { path: { cluster_id: cluster }, query: { format: "ndjson" as const, ...span(from, to) } };
      const stream = await body(api.GET("/v1/clusters/{cluster_id}/audit", { params, parseAs: "stream", signal }));
      return readAudit(stream as ReadableStream<Uint8Array<ArrayBuffer>>);
    },
    gcTime: 60_000,
  });
}

export async function readAudit(stream: ReadableStream<Uint8Array<ArrayBuffer>>, most = MOST_ENTRIES): Promise<Audit> {
  const entries: AuditEntry[] = [];
  let unreadable = 0;
  let rest = "";
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  const take = (line: string) => {
    if (line === "") return;
    const entry = entryOf(line);
    if (entry === null) unreadable += 1;
    else entries.push(entry);
  };
  for (;;) {
    const { done, value } = await reader.read();
    const lines = `${rest}${value ?? ""}`.split("\n");
    rest = done ? "" : (lines.pop() ?? "").slice(0, LONGEST_LINE);
    for (const line of lines) {
      if (entries.length >= most) {
        await reader.cancel();
        return { entries: entries.toReversed(), cut: true, unreadable };
      }
      take(line);
    }
    if (done) return { entries: entries.toReversed(), cut: false, unreadable };
  }
}

function entryOf(line: string): AuditEntry | null {
  try {
    const entry = v.safeParse(AuditEntry, JSON.parse(line));
    return entry.success ? entry.output : null;
  } catch {
    return null;
  }
}

/** The job that an entry leads to; null where there is none. An action on tasks of an array leads to the array. */
export function jobOf({ action, subject, detail }: Pick<AuditEntry, "action" | "subject" | "detail">): string | null {
  const job = action.startsWith("link.") ? detail : action === "job.submitted" || action.startsWith("action.") ? subject : "";
  return /^\d+(?:_\d+)?$/.test(job) ? job : null;
}

/** The entries with the addresses of the invitations that are still open: events name an invitation by its id alone. */
export function named(entries: readonly AuditEntry[], invitations: readonly { id: string; email: string }[]): AuditEntry[] {
  const addresses = new Map(invitations.map(({ id, email }) => [id, email]));
  return entries.map((entry) => {
    const address = entry.action.startsWith("invitation.") && entry.detail === "" ? addresses.get(entry.subject) : undefined;
    return address === undefined ? entry : { ...entry, detail: address };
  });
}

/** The entries of an action, or of a group of them, that have a text in them. */
export function filtered(entries: readonly AuditEntry[], action: string | undefined, find: string | undefined): AuditEntry[] {
  return entries.filter(
    (entry) =>
      (action === undefined || entry.action === action || (action.endsWith(".") && entry.action.startsWith(action))) &&
      contains(find, entry.actor, entry.action, entry.subject, entry.owner, entry.detail),
  );
}
