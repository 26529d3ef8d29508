/** The stages of a job with their times, as an ordered list. */

import { useMemo } from "react";
import type { JobExplanation, JobWithCost } from "../../api/schema";
import { eventRecord } from "../../live/event";
import { text } from "../../texts";
import { clock, duration, exact } from "../../ui/format";
import { hasEnded, stateGroup } from "../../ui/jobStates";
import { Moment } from "../../ui/Moment";
import classes from "./job.module.css";
import { latestEnd, stagesOf } from "./stages";
import { useJobEvents } from "./useJob";

interface Props {
  cluster: string;
  job: JobWithCost;
  why: JobExplanation | undefined;
}

export function Timeline({ cluster, job, why }: Props) {
  const events = useJobEvents(cluster, job.job_id);
  const told = useMemo(
    () =>
      (events.data?.events ?? []).flatMap((event) => {
        const record = eventRecord(event);
        return record === null ? [] : [{ time: record.time, kind: record.data.kind }];
      }),
    [events.data],
  );
  const stages = stagesOf(job, why, told);
  const next = nextOf(job, why);
  return (
    <ol className={classes.timeline} aria-label={text("job.timeline.name")}>
      {stages.map((stage) => (
        <li key={`${stage.name} ${stage.at}`} className={classes.stage} title={exact(new Date(stage.at))}>
          {stage.after === null ? null : <span className={classes.gap}>{text("job.timeline.after", { duration: duration(stage.after) })}</span>}
          <span className={classes.stageName}>{text(`job.timeline.${stage.name}`)}</span>
          <time dateTime={stage.at} className="number">
            {clock(new Date(stage.at))}
          </time>
        </li>
      ))}
      {next === null ? null : (
        <li className={classes.stage} data-coming>
          <span className={classes.stageName}>{text(`job.timeline.${next.name}`)}</span> <Moment at={next.at} />
        </li>
      )}
    </ol>
  );
}

function nextOf(job: JobWithCost, why: JobExplanation | undefined): { name: "starts" | "ends"; at: string } | null {
  if (hasEnded(job.state)) return null;
  if (stateGroup(job.state) === "waiting") return why?.expected_start ? { name: "starts", at: why.expected_start } : null;
  const end = latestEnd(job);
  return end === null ? null : { name: "ends", at: end };
}
