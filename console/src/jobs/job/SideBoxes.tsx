/** Beside the output: why and where, and what it costs. */

import type { JobExplanation, JobWithCost, Money } from "../../api/schema";
import { text } from "../../texts";
import { money } from "../../ui/format";
import { UserText } from "../../ui/UserText";
import { hasEnded } from "../../ui/jobStates";
import { Moment } from "../../ui/Moment";
import { useNow } from "../../ui/useNow";
import { Alternatives } from "../Alternatives";
import { elapsedOf } from "../figures";
import { BoughtList } from "./BoughtList";
import { Box } from "./Box";
import classes from "./job.module.css";
import { useJobCosts } from "./useJob";

interface Props {
  cluster: string;
  job: JobWithCost;
  why: JobExplanation | undefined;
}

export function WhyBox({ cluster, job, why: told, explains }: Props & { explains: boolean }) {
  // What is of an earlier state would contradict the one that is shown.
  const why = explains ? told : undefined;
  return (
    <Box title={text("job.why.title")}>
      {why === undefined ? (
        <p className={classes.quiet}>{text(told === undefined ? "ui.loading" : "job.why.changed")}</p>
      ) : (
        <p><UserText>{why.text}</UserText></p>
      )}
      {why?.reason ? <p className={classes.quiet}>{text("job.why.slurm")} <UserText>{why.reason}</UserText></p> : null}
      {why?.expected_start ? <p>{text("job.why.starts")} <Moment at={why.expected_start} /></p> : null}
      <BoughtList cluster={cluster} job={job.job_id} why={told} />
      {why?.state === "pending" && why.places?.length ? (
        <>
          <h3>{text("job.why.places")}</h3>
          <ul className={classes.plain}>
            {why.places.map((place) => (
              <li key={`${place.kind} ${place.worker} ${place.shape}`}>
                {text(`job.why.place.${place.kind}`)} <UserText>{[place.worker, place.shape].filter(Boolean).join(" · ")}</UserText>
              </li>
            ))}
          </ul>
        </>
      ) : null}
      {why?.alternatives?.length ? (
        <>
          <h3>{text(why.alternatives_as_of ? "job.alternatives.title_bought" : "job.alternatives.title")}</h3>
          {why.alternatives_as_of ? <p className={classes.quiet}>{text("job.alternatives.bought_at")} <Moment at={why.alternatives_as_of} /></p> : null}
          <Alternatives alternatives={why.alternatives} />
        </>
      ) : null}
      {job.nodes?.length ? <p className={classes.quiet}>{text("job.why.on")} <UserText>{job.nodes.join(", ")}</UserText></p> : null}
      {why?.generation ? <p className={classes.quiet}>{text("job.why.looked")} <Moment at={why.as_of} /></p> : null}
    </Box>
  );
}

function shown(amount: Money | null | undefined): string {
  return amount ? money(Number(amount.amount), amount.currency) : text("job.cost.unknown");
}

export function CostBox({ cluster, job, why }: Props) {
  const costs = useJobCosts(cluster, job.job_id);
  const now = useNow();
  const total = costs.data?.total ?? job.cost?.total;
  const hourly = why?.usd_per_hour ?? null;
  const over = hasEnded(job.state);
  const rest = job.time_limit_seconds ? Math.max(0, job.time_limit_seconds - (elapsedOf(job, now) ?? 0)) : null;
  return (
    <Box title={text("job.cost.title")}>
      <dl className={classes.figures}>
        <div>
          <dt>{text(over ? "job.cost.whole" : "job.cost.so_far")}</dt>
          <dd className="number">{total || job.started_at ? shown(total) : money(0)}</dd>
        </div>
        {!over && hourly !== null ? (
          <div>
            <dt>{text("job.cost.hourly")}</dt>
            <dd className="number">{money(hourly)}</dd>
          </div>
        ) : null}
        {!over && hourly !== null && rest !== null ? (
          <div>
            <dt>{text("job.cost.at_most")}</dt>
            <dd className="number">{money(Number(total?.amount ?? 0) + (hourly * rest) / 3600)}</dd>
          </div>
        ) : null}
      </dl>
      {costs.data ? <p className={classes.quiet}>{text(costs.data.stale ? "job.cost.stale" : "job.cost.as_of")} <Moment at={costs.data.as_of} /></p> : null}
    </Box>
  );
}
