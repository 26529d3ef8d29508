/** Why a job failed: Slurm's words, and what they most likely mean. The last lines stand below it. */

import type { Job } from "../../api/schema";
import { text } from "../../texts";
import { endingOf, type Cause } from "./ending";
import { memoryOf, type Asked } from "../figures";
import { bytes } from "../../ui/format";
import classes from "./job.module.css";

const MIB = 1024 * 1024;

/** Causes of which the output says more. An array has no output of its own. */
const OF_OUTPUT: ReadonlySet<Cause> = new Set(["usage", "abort", "signal", "exit", "unknown"]);

interface Props {
  job: Asked & Pick<Job, "state" | "exit_code" | "signal" | "reason">;
  /** Whether it is an array as a whole. */
  array?: boolean;
}

export function EndingBox({ job, array = false }: Props) {
  const ending = endingOf(job);
  if (ending === null) return null;
  const asked = memoryOf(job);
  return (
    <section className={classes.ending} aria-label={text("job.ending.name")}>
      <h2>{text(`job.ending.${ending.cause}`, { code: ending.exitCode ?? "", signal: ending.signal ?? "" })}</h2>
      <p>
        {array && OF_OUTPUT.has(ending.cause) ? text("job.ending.array_details") : text(`job.ending.${ending.cause}_details`)}
        {ending.cause === "memory" && asked !== null ? ` ${text("job.ending.asked", { size: bytes(asked * MIB) })}` : null}
      </p>
      <p className={classes.quiet}>
        {text("job.ending.told", { state: job.state })}
        {ending.exitCode === null ? null : ` · ${text("job.ending.code", { code: ending.exitCode })}`}
        {ending.signal === null ? null : ` · ${text("job.ending.by_signal", { signal: ending.signal })}`}
      </p>
    </section>
  );
}
