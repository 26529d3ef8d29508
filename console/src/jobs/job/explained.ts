/** Whether an explanation matches the state that is shown of a job: it can be older. */

import type { Job, JobExplanation } from "../../api/schema";
import { hasEnded, stateGroup } from "../../ui/jobStates";

/** The scaler explains from its last decision, which may be some seconds old. */
export function isOfState(why: Pick<JobExplanation, "state">, job: Pick<Job, "state" | "array_tasks">): boolean {
  // An array of which tasks wait is in several states at once.
  if (job.array_tasks) return true;
  if (hasEnded(job.state)) return why.state === "ended";
  switch (stateGroup(job.state)) {
    case "waiting":
      return why.state === "pending";
    // Workers that boot for a job are told while it waits for them, and when it has them.
    case "starting":
      return why.state !== "ended";
    default:
      return why.state === "running";
  }
}
