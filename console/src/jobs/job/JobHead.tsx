/** The line below the heading: the state, of an array those of its tasks, how long of how much, whose, and where. */

import { Link } from "@tanstack/react-router";
import type { JobWithCost } from "../../api/schema";
import { text } from "../../texts";
import { duration } from "../../ui/format";
import { UserText } from "../../ui/UserText";
import { useChangesAnnounced } from "../../ui/announcements";
import { hasEnded } from "../../ui/jobStates";
import { stateWord } from "../../ui/stateWord";
import { Elapsed } from "../../ui/Moment";
import { StateMark } from "../../ui/StateMark";
import { ArrayCounts } from "../ArrayCells";
import { summaryText } from "../arrayCounts";
import type { ArraySummary } from "../arraySummary";
import classes from "./job.module.css";
import { useArraySummary } from "./useArraySummary";

export function JobHead({ cluster, job }: { cluster: string; job: JobWithCost }) {
  const array = useArraySummary(cluster, job);
  useChangesAnnounced(said(job, array), array ? array.over : true);
  return (
    <div className={classes.head}>
      {array ? <ArrayCounts counts={array.counts} /> : <StateMark state={job.state} />}
      {job.started_at ? (
        <span>
          <Elapsed from={job.started_at} to={job.ended_at} />
          {job.time_limit_seconds ? ` ${text("job.of_limit", { limit: duration(job.time_limit_seconds) })}` : null}
        </span>
      ) : hasEnded(job.state) ? null : (
        <span>
          {text("job.waits_since")} <Elapsed from={job.submitted_at} to={null} />
        </span>
      )}
      <span>
        {text("jobs.column.user")}: <UserText>{job.user}</UserText>
      </span>
      {job.account ? (
        <span>
          {text("jobs.column.account")}: <UserText>{job.account}</UserText>
        </span>
      ) : null}
      {job.template ? (
        <span>
          {text("job.template")}:{" "}
          <Link to="/c/$cluster/templates/$template" params={{ cluster, template: job.template }} search={{}}>
            <UserText>{job.template}</UserText>
          </Link>
        </span>
      ) : null}
      <span>
        {text("jobs.column.partition")}: <UserText>{job.partition}</UserText>
      </span>
      {job.restarts ? <span>{text("job.restarts", { count: job.restarts })}</span> : null}
    </div>
  );
}

/** What is said when it changes: the state, or the tasks of an array; null until these are known. */
function said(job: JobWithCost, array: ArraySummary | null | undefined): string | null {
  if (array === undefined) return null;
  return array === null ? stateWord(job.state) : summaryText(array);
}
