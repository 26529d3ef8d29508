/** An event of a cluster as the stream tells it: a CloudEvent whose `data` has the `kind` and what happened. */

import * as v from "valibot";

const EventRecord = v.object({
  id: v.string(),
  subject: v.string(),
  time: v.string(),
  data: v.looseObject({ kind: v.string() }),
});

export type EventRecord = v.InferOutput<typeof EventRecord>;

export interface LiveEvent extends EventRecord {
  /** Its position in the stream. */
  position: number;
}

/** The kinds that end the run of a job. */
export const JOB_ENDS: readonly string[] = ["job.completed", "job.failed", "job.cancelled", "job.timeout"];

/** One event; null for one that cannot be read, which hides no other. */
export function eventRecord(given: unknown): EventRecord | null {
  const event = v.safeParse(EventRecord, given);
  return event.success ? event.output : null;
}

/** One event of the stream, as text; null for one that cannot be read. */
export function readEvent(text: string, position: number): LiveEvent | null {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    return null;
  }
  const event = eventRecord(given);
  return event === null ? null : { ...event, position };
}
