/** How a job ended, in plain words: from Slurm's state, exit code and signal, never from what it wrote. */

import type { Job } from "../../api/schema";
import { stateGroup } from "../../ui/jobStates";

export type Cause =
  | "memory"
  | "time"
  | "deadline"
  | "worker_lost"
  | "worker_boot"
  | "files"
  | "not_found"
  | "not_executable"
  | "killed"
  | "segfault"
  | "abort"
  | "terminated"
  | "signal"
  | "usage"
  | "exit"
  | "unknown";

export interface Ending {
  cause: Cause;
  exitCode: number | null;
  signal: number | null;
}

const STATES: Record<string, Cause> = {
  OUT_OF_MEMORY: "memory",
  TIMEOUT: "time",
  DEADLINE: "deadline",
  NODE_FAIL: "worker_lost",
  BOOT_FAIL: "worker_boot",
  LAUNCH_FAILED: "worker_boot",
};

const CODES: Record<number, Cause> = { 2: "usage", 126: "not_executable", 127: "not_found" };
const SIGNALS: Record<number, Cause> = { 6: "abort", 9: "killed", 11: "segfault", 15: "terminated" };
/** Shells end with 128 and the number of the signal that ended their last command. */
const SHELL_SIGNAL = 128;

/** The ending of a job that failed; null of every other. */
export function endingOf(job: Pick<Job, "state" | "exit_code" | "signal" | "reason">): Ending | null {
  if (stateGroup(job.state) !== "failed") return null;
  const exitCode = job.exit_code ?? null;
  const told = job.signal || null;
  const signal = told ?? (exitCode !== null && exitCode > SHELL_SIGNAL && exitCode <= SHELL_SIGNAL + 64 ? exitCode - SHELL_SIGNAL : null);
  return { cause: causeOf(job, exitCode, signal), exitCode, signal };
}

function causeOf(job: Pick<Job, "state" | "reason">, exitCode: number | null, signal: number | null): Cause {
  const byState = STATES[job.state];
  if (byState !== undefined) return byState;
  if (job.reason === "FilesNotOpened") return "files";
  if (signal !== null) return SIGNALS[signal] ?? "signal";
  if (exitCode !== null && exitCode !== 0) return CODES[exitCode] ?? "exit";
  return "unknown";
}
