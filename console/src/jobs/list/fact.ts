/** What an event tells of a job (the contract `JobFact`), and how it changes a record that was read. */

import * as v from "valibot";
import type { Job } from "../../api/schema";
import type { LiveEvent } from "../../live/event";
import { stageOf } from "../../ui/jobStates";

const JobFact = v.object({
  kind: v.pipe(v.string(), v.startsWith("job.")),
  job_id: v.string(),
  name: v.string(),
  user: v.string(),
  uid: v.number(),
  partition: v.string(),
  state: v.string(),
  reason: v.optional(v.string(), ""),
  exit_code: v.nullish(v.number()),
  nodes: v.optional(v.array(v.string()), []),
  submitted_at: v.string(),
  started_at: v.nullish(v.string()),
  ended_at: v.nullish(v.string()),
  restarts: v.nullish(v.number()),
  account: v.optional(v.string(), ""),
  cpus: v.nullish(v.number()),
  time_limit_seconds: v.nullish(v.number()),
});

export type Fact = v.InferOutput<typeof JobFact>;

/** The fact in an event; null for an event that is none of a job's states. */
export function factOf(event: LiveEvent): Fact | null {
  const fact = v.safeParse(JobFact, event.data);
  return fact.success ? fact.output : null;
}

/** What a fact changes of a record. Only the keys that events tell. */
export function changes(fact: Fact): Partial<Job> {
  return {
    state: fact.state,
    reason: fact.reason,
    nodes: fact.nodes,
    exit_code: fact.exit_code ?? null,
    started_at: fact.started_at ?? null,
    ended_at: fact.ended_at ?? null,
    ...(fact.restarts === null || fact.restarts === undefined ? {} : { restarts: fact.restarts }),
    ...(fact.cpus === null || fact.cpus === undefined ? {} : { cpus: fact.cpus }),
    ...(fact.nodes.length > 0 ? { node_count: fact.nodes.length } : {}),
  };
}

interface Run {
  state: string;
  submitted_at: string;
  restarts?: number | null | undefined;
}

/**
 * Whether one is of an earlier run of a job than the other, or of an earlier stage of the same run. Events are told after
 * what they tell of may have been read, and a read may end after an event that it does not know.
 */
export function isBefore(one: Run, other: Run): boolean {
  const submitted = Date.parse(one.submitted_at) - Date.parse(other.submitted_at);
  if (submitted !== 0) return submitted < 0;
  const restarts = (one.restarts ?? other.restarts ?? 0) - (other.restarts ?? one.restarts ?? 0);
  if (restarts !== 0) return restarts < 0;
  const [stage, otherStage] = [stageOf(one.state), stageOf(other.state)];
  return stage !== null && otherStage !== null && stage < otherStage;
}

/** A record after an event: the same one where it is further than the event. Not of an array as a whole, whose tasks have states of their own. */
export function withFact<Known extends Job>(known: Known, fact: Fact): Known {
  return isBefore(fact, known) ? known : { ...known, ...changes(fact) };
}

/** What an event tells of a job that no list has yet. The rest comes when the job is read. */
export function jobOf(fact: Fact): Job {
  return {
    job_id: fact.job_id,
    name: fact.name,
    user: fact.user,
    uid: fact.uid,
    partition: fact.partition,
    submitted_at: fact.submitted_at,
    account: fact.account,
    time_limit_seconds: fact.time_limit_seconds ?? null,
    state: fact.state,
    ...changes(fact),
  };
}

/** Whether a record was read, and not made from events alone. */
export function isComplete(job: Job): boolean {
  return job.qos !== undefined;
}

const TOLD = [
  "state", "reason", "nodes", "exit_code", "started_at", "ended_at", "restarts", "cpus", "node_count",
] as const satisfies readonly (keyof Job)[];

/** A record that was read before the newest events of its job: what they told stays. */
export function keepEventFields<Read extends Job>(read: Read, current: Job): Read {
  const told = Object.fromEntries(TOLD.filter((key) => current[key] !== undefined).map((key) => [key, current[key]]));
  return { ...read, ...told };
}
