/** How many jobs run, wait and have ended within a day. */

import { text } from "../texts";
import { count } from "../ui/format";
import { hasEnded, stateGroup } from "../ui/jobStates";

const DAY_MS = 86_400_000;

export interface Counts {
  running: number;
  waiting: number;
  /** Those that ended within the last 24 hours. */
  ended: number;
}

export function counted(jobs: Iterable<{ state: string; ended_at?: string | null }>, now: number): Counts {
  const counts = { running: 0, waiting: 0, ended: 0 };
  for (const { state, ended_at } of jobs) {
    if (hasEnded(state)) {
      if (ended_at && now - Date.parse(ended_at) < DAY_MS) counts.ended += 1;
    } else if (stateGroup(state) === "waiting") counts.waiting += 1;
    else counts.running += 1;
  }
  return counts;
}

/** A count as it is shown: a lower bound while not all jobs were read; null before there is anything to say. */
export function figure(number: number, complete: boolean): string | null {
  if (complete) return count(number);
  return number === 0 ? null : text("home.at_least", { number: count(number) });
}
