/** What events tell of the sessions in a list: each is a job, and its page can be opened from `session.ready` on. */

import type { LiveEvent } from "../live/event";
import type { SessionDetail } from "../api/schema";
import { factOf } from "../jobs/list/fact";
import { hasEnded } from "../ui/jobStates";

/** Slurm states of a job whose session is `pending`: as `WAITING` of the gateway's `session_jobs.py`. */
const WAITING: ReadonlySet<string> = new Set(["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED"]);

/** The list after an event; the same one where it tells nothing of these sessions, or nothing new. */
export function withEvent(sessions: readonly SessionDetail[], event: LiveEvent): readonly SessionDetail[] {
  const row = sessions.findIndex(({ job_id }) => job_id === jobOf(event));
  const session = sessions[row];
  if (session === undefined) return sessions;
  const state = stateAfter(session.state, event);
  // What it waited for is no longer so; what it waits for now comes with its record.
  return state === session.state ? sessions : sessions.with(row, { ...session, state, detail: "" });
}

function stateAfter(before: SessionDetail["state"], event: LiveEvent): SessionDetail["state"] {
  if (event.data.kind === "session.ready") return before === "ended" ? before : "ready";
  const fact = factOf(event);
  if (fact === null) return before;
  if (hasEnded(fact.state)) return "ended";
  if (WAITING.has(fact.state)) return "pending";
  // That its server takes connections is told once, and stays so while the job runs.
  return before === "ready" ? before : "starting";
}

/** The job that an event is about. */
export function jobOf(event: LiveEvent): string {
  const id = event.data["job_id"];
  return typeof id === "string" ? id : "";
}

/** Whether an event of a job that the list lacks may be of a session of this user: each is made from a template. */
export function mayStart(event: LiveEvent, uid: number | undefined): boolean {
  const { kind, uid: owner, template } = event.data;
  if (owner !== uid) return false;
  return kind === "session.ready" || ((kind === "job.submitted" || kind === "job.running") && typeof template === "string" && template !== "");
}
