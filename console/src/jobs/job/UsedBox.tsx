/** What a job used of what it asked for. */

import type { Job } from "../../api/schema";
import { text } from "../../texts";
import { bytes, count, fixed, percent } from "../../ui/format";
import { hasEnded } from "../../ui/jobStates";
import { memoryOf, type Asked } from "../figures";
import { Box } from "./Box";
import classes from "./job.module.css";

const MIB = 1024 * 1024;

type Used = Asked & Pick<Job, "state" | "peak_memory_mib" | "cpu_efficiency">;

export function UsedBox({ job }: { job: Used }) {
  const asked = memoryOf(job);
  const peak = job.peak_memory_mib ?? null;
  const cpus = job.cpus ?? null;
  const efficiency = job.cpu_efficiency ?? null;
  return (
    <Box title={text("job.used.title")}>
      <Bar
        name={text("job.used.cpu")}
        share={efficiency}
        figures={
          efficiency === null
            ? text("job.used.only_asked", { asked: cpus === null ? "–" : count(cpus) })
            : text("job.used.cpu_of", { used: fixed(efficiency * (cpus ?? 0), 1), asked: count(cpus ?? 0), percent: percent(efficiency) })
        }
      />
      <Bar
        name={text("job.used.memory")}
        share={peak === null || !asked ? null : peak / asked}
        figures={
          peak === null
            ? text("job.used.only_asked", { asked: asked === null ? "–" : bytes(asked * MIB) })
            : text("job.used.memory_of", { used: bytes(peak * MIB), asked: asked === null ? "–" : bytes(asked * MIB) })
        }
      />
      {efficiency === null && peak === null ? <p className={classes.quiet}>{text(hasEnded(job.state) ? "job.used.never" : "job.used.later")}</p> : null}
    </Box>
  );
}

function Bar({ name, share, figures }: { name: string; share: number | null; figures: string }) {
  const width = Math.min(1, Math.max(0, share ?? 0));
  return (
    <div className={classes.used}>
      <span>{name}</span>
      <span className={classes.bar} role="meter" aria-label={name} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(width * 100)} aria-valuetext={figures}>
        <span style={{ width: `${width * 100}%` }} />
      </span>
      <span className="number">{figures}</span>
    </div>
  );
}
