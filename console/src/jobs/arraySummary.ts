/** The state of a job as a whole, for its heading and the acts on it; of an array, how many of its tasks are in which. Pure. */

import type { Job } from "../api/schema";
import { hasEnded, stateGroup, type StateGroup } from "../ui/jobStates";
import { taskCount, taskOf, tasksOfRecord, without } from "./arrayTasks";
import { isHeld } from "./bulk/plan";
import type { Counts } from "./rows";

/** Of an array, these may all be true but `over`: its tasks are in several states at once. */
export interface WholeState {
  waits: boolean;
  /** Whether something has started and not ended. */
  runs: boolean;
  over: boolean;
  /** Whether what waits is held. */
  held: boolean;
}

export interface ArraySummary extends WholeState {
  counts: Counts;
}

export function wholeState(job: Pick<Job, "state" | "reason">): WholeState {
  const [waits, over] = [stateGroup(job.state) === "waiting", hasEnded(job.state)];
  return { waits, runs: !waits && !over, over, held: isHeld(job) };
}

type Task = Pick<Job, "job_id" | "state" | "reason" | "array_tasks" | "unstarted_tasks">;

/** Of all records of an array. A task that has a record of its own counts by it alone: the records may be of several moments. */
export function summaryOf(records: readonly Task[]): ArraySummary {
  const own = records.map(({ job_id }) => taskOf(job_id)).filter((task) => task !== null);
  const counts: Counts = {};
  for (const record of records) {
    const tasks = tasksOfRecord(record);
    add(counts, stateGroup(record.state), tasks === "" ? 1 : taskCount(own.reduce(without, tasks)));
  }
  return summary(counts, records);
}

/** Of the number of records in each state, where not all of them were read: those that stand for several tasks are among these. */
export function summaryOfStates(states: Readonly<Record<string, number>>, records: readonly Task[]): ArraySummary {
  const counts: Counts = {};
  for (const [state, number] of Object.entries(states)) add(counts, stateGroup(state), number);
  for (const record of records) {
    const tasks = tasksOfRecord(record);
    if (tasks !== "") add(counts, stateGroup(record.state), taskCount(tasks) - 1);
  }
  return summary(counts, records);
}

function add(counts: Counts, group: StateGroup, number: number): void {
  const total = (counts[group] ?? 0) + number;
  if (total > 0) counts[group] = total;
}

function summary(counts: Counts, records: readonly Task[]): ArraySummary {
  const waits = counts.waiting !== undefined;
  const runs = counts.running !== undefined || counts.starting !== undefined;
  const held = records.some((record) => stateGroup(record.state) === "waiting" && isHeld(record));
  return { counts, waits, runs, over: !waits && !runs, held };
}
