/** The stages of a job with their times, as an ordered list. The first one names the zone of all. */

import type { JobExplanation, JobWithCost } from "../../../api/schema";
import { text } from "../../../texts";
import { clock, clockInZone, duration, exact } from "../../../ui/format";
import { UserText } from "../../../ui/UserText";
import { hasEnded, stateGroup } from "../../../ui/jobStates";
import { Moment } from "../../../ui/Moment";
import classes from "../job.module.css";
import { latestEnd, shortened, stagesOf } from "./stages";
import { useJobTimeline } from "../useJob";

interface Props {
  cluster: string;
  job: JobWithCost;
  why: JobExplanation | undefined;
}

export function Timeline({ cluster, job, why }: Props) {
  const timeline = useJobTimeline(cluster, job.job_id);
  const stages = shortened(stagesOf(job, timeline.data?.stages));
  const next = nextOf(job, why);
  return (
    <ol className={classes.timeline} aria-label={text("job.timeline.name")}>
      {stages.map((stage, index) => (
        <li key={`${stage.name} ${stage.at} ${stage.details}`} className={classes.stage}>
          {stage.after === null ? null : <span className={classes.gap}>{text("job.timeline.after", { duration: duration(stage.after) })}</span>}
          <span className={classes.stageName}>
            {text(`job.timeline.${stage.name}`)}
            {stage.times > 1 ? ` ${text("job.timeline.times", { times: stage.times })}` : null}
          </span>
          <time dateTime={stage.at} className="number" title={exact(new Date(stage.at))}>
            {(index === 0 ? clockInZone : clock)(new Date(stage.at))}
          </time>
          {stage.details ? (
            <span className={classes.quiet}>
              <UserText>{stage.details}</UserText>
            </span>
          ) : null}
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
