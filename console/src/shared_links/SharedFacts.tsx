/** What a link always shows of a job, and why and what it costs where the link shows it. */

import type { SharedJob } from "../api/schema";
import { Box } from "../jobs/job/Box";
import { EndingBox } from "../jobs/job/EndingBox";
import { UsedBox } from "../jobs/job/UsedBox";
import { text } from "../texts";
import { count, duration, money } from "../ui/format";
import { UserText } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import classes from "./shared_links.module.css";

export function SharedFacts({ job }: { job: SharedJob }) {
  return (
    <>
      <EndingBox job={{ ...job, reason: job.why?.reason ?? "" }} />
      <div className={classes.boxes}>
        <Facts job={job} />
        <UsedBox job={job} />
        {job.shows.includes("why") ? <Why why={job.why} /> : null}
        {job.shows.includes("cost") ? <CostSoFar cost={job.cost} /> : null}
      </div>
    </>
  );
}

function Facts({ job }: { job: SharedJob }) {
  const { started_at: started, ended_at: ended } = job;
  const rows = [
    ["submitted", <Moment key="at" at={job.submitted_at} />],
    ["started", <Moment key="at" at={started} />],
    ["ended", <Moment key="at" at={ended} />],
    ["ran", started && ended ? duration((Date.parse(ended) - Date.parse(started)) / 1000) : null],
    ["limit", job.time_limit_seconds ? duration(job.time_limit_seconds) : null],
    ["tasks", count(job.tasks)],
    ["workers", count(job.node_count)],
    ["gpus", job.gres ? <UserText key="gres">{job.gres}</UserText> : null],
    ["exit", job.exit_code],
    ["signal", job.signal || null],
  ] as const;
  return (
    <Box title={text("shared_links.page.facts")}>
      <dl className={classes.figures}>
        {rows.map(([name, value]) =>
          value === null ? null : (
            <div key={name}>
              <dt>{text(`shared_links.page.${name}`)}</dt>
              <dd className="number">{value}</dd>
            </div>
          ),
        )}
      </dl>
    </Box>
  );
}

function Why({ why }: { why: SharedJob["why"] }) {
  return (
    <Box title={text("shared_links.page.why")}>
      {why === null ? <p>{text("shared_links.page.not_told")}</p> : null}
      {why === null ? null : (
        <p>
          <UserText>{why.text}</UserText>
        </p>
      )}
      {why?.reason ? (
        <p className={classes.quiet}>
          {text("shared_links.page.slurm")} <UserText>{why.reason}</UserText>
        </p>
      ) : null}
      {why?.expected_start ? (
        <p>
          {text("shared_links.page.starts")} <Moment at={why.expected_start} />
        </p>
      ) : null}
    </Box>
  );
}

function CostSoFar({ cost }: { cost: SharedJob["cost"] }) {
  const total = cost?.total;
  return (
    <Box title={text("shared_links.page.cost")}>
      <p className="number">{total ? money(Number(total.amount), total.currency) : text("job.cost.unknown")}</p>
      {cost ? (
        <p className={classes.quiet}>
          {text(cost.stale ? "job.cost.stale" : "job.cost.as_of")} <Moment at={cost.as_of} />
        </p>
      ) : null}
    </Box>
  );
}
