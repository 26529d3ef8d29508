/** Slurm's states of jobs in the six groups that the console shows (https://slurm.schedmd.com/job_state_codes.html). */

export type StateGroup = "waiting" | "starting" | "running" | "done" | "failed" | "cancelled";

const GROUPS: Record<string, StateGroup> = {
  PENDING: "waiting",
  REQUEUED: "waiting",
  REQUEUE_HOLD: "waiting",
  REQUEUE_FED: "waiting",
  SPECIAL_EXIT: "waiting",
  RESV_DEL_HOLD: "waiting",
  CONFIGURING: "starting",
  RUNNING: "running",
  COMPLETING: "running",
  STAGE_OUT: "running",
  SUSPENDED: "running",
  STOPPED: "running",
  SIGNALING: "running",
  RESIZING: "running",
  COMPLETED: "done",
  FAILED: "failed",
  TIMEOUT: "failed",
  OUT_OF_MEMORY: "failed",
  NODE_FAIL: "failed",
  BOOT_FAIL: "failed",
  DEADLINE: "failed",
  LAUNCH_FAILED: "failed",
  CANCELLED: "cancelled",
  PREEMPTED: "cancelled",
  REVOKED: "cancelled",
};

/** The groups in the order in which a job passes them. */
export const STATE_GROUPS: readonly StateGroup[] = ["waiting", "starting", "running", "done", "failed", "cancelled"];

/** The group of a state. One that a newer Slurm adds counts as running, because the job has not ended. */
export function stateGroup(state: string): StateGroup {
  return GROUPS[state] ?? "running";
}

const STAGES: Record<StateGroup, number> = { waiting: 0, starting: 1, running: 2, done: 3, failed: 3, cancelled: 3 };

/** How far the run of a job in this state is. No run goes back: a job that is requeued has another one. Null for an unknown state. */
export function stageOf(state: string): number | null {
  const group = GROUPS[state];
  return group === undefined ? null : STAGES[group];
}

/** Whether a job in this state has ended. */
export function hasEnded(state: string): boolean {
  return ["done", "failed", "cancelled"].includes(stateGroup(state));
}
