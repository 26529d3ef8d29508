/** The line below the heading: the state, how long of how much, whose, and where. */

import { Link } from "@tanstack/react-router";
import type { JobWithCost } from "../../api/schema";
import { text } from "../../texts";
import { duration } from "../../ui/format";
import { UserText } from "../../ui/UserText";
import { hasEnded } from "../../ui/jobStates";
import { Elapsed } from "../../ui/Moment";
import { StateMark } from "../../ui/StateMark";
import classes from "./job.module.css";

export function JobHead({ cluster, job }: { cluster: string; job: JobWithCost }) {
  return (
    <div className={classes.head}>
      <span aria-live="polite">
        <StateMark state={job.state} />
      </span>
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
