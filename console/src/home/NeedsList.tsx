/** The list of what needs the person. Each entry leads to where it can be dealt with. */

import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { amount } from "../money/amounts";
import { ResumeLink } from "../app/shell/PausedCluster";
import { text } from "../texts";
import { UserText, visible } from "../ui/UserText";
import { money, percent } from "../ui/format";
import { Moment } from "../ui/Moment";
import classes from "./HomePage.module.css";
import type { Need } from "./needs";

/** What stops nothing yet. */
const MILD: ReadonlySet<Need["kind"]> = new Set(["budget", "quota", "paused"]);

interface Props {
  cluster: string;
  needs: readonly Need[];
  /** What is said where there are none: that nothing needs the person is known only when all was read. */
  none: string;
}

export function NeedsList({ cluster, needs, none }: Props) {
  if (needs.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        {none}
      </Text>
    );
  }
  return (
    <ul className={classes.needs}>
      {needs.map((need) => (
        <li key={keyOf(need)} className={classes.need} data-kind={need.kind}>
          <span aria-hidden>{MILD.has(need.kind) ? "◔" : "✕"}</span>
          <NeedText cluster={cluster} need={need} />
        </li>
      ))}
    </ul>
  );
}

function keyOf(need: Need): string {
  switch (need.kind) {
    case "failed":
      return `failed ${need.job.job_id}`;
    case "quota":
      return `quota ${need.quota.scope} ${need.quota.name}`;
    case "budget":
      return `budget ${need.budget.scope} ${need.budget.name}`;
    case "degraded":
      return `degraded ${need.since} ${need.message}`;
    default:
      return need.kind;
  }
}

function NeedText({ cluster, need }: { cluster: string; need: Need }) {
  switch (need.kind) {
    case "failed":
      return (
        <span>
          <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: need.job.job_id }}>
            {text("home.failed", { name: visible(need.job.name || text("jobs.unnamed")) })}
          </Link>{" "}
          <Text span size="sm" c="dimmed">
            {text("home.failed_details", { number: need.job.job_id, state: need.job.state })} · <Moment at={need.job.ended_at} />
          </Text>
        </span>
      );
    case "degraded":
      return (
        <span>
          <Link to="/c/$cluster/fleet" params={{ cluster }}>
            {text("home.degraded")}
          </Link>{" "}
          <Text span size="sm" c="dimmed">
            <UserText>{need.message}</UserText> · <Moment at={need.since} />
          </Text>
        </span>
      );
    case "quota": {
      const { quota, share } = need;
      return (
        <span>
          <Link to="/c/$cluster/costs" params={{ cluster }}>
            {text("home.quota_low", { percent: percent(share) })}
          </Link>{" "}
          <Text span size="sm" c="dimmed">
            {text("home.quota_details", {
              scope: text(`money.scope.${quota.scope}`),
              name: visible(quota.name),
              left: money(Number(quota.left.amount), quota.left.currency),
              limit: money(Number(quota.limit.amount), quota.limit.currency),
              month: quota.month,
            })}
          </Text>
        </span>
      );
    }
    case "budget": {
      const { budget, threshold } = need;
      return (
        <span>
          <Link to="/c/$cluster/costs" params={{ cluster }} search={{ tab: "limits" }}>
            {text(`home.budget_${threshold.measure}`, { percent: threshold.percent })}
          </Link>{" "}
          <Text span size="sm" c="dimmed">
            {text("home.budget_details", {
              scope: text(`money.scope.${budget.scope}`),
              name: visible(budget.name),
              amount: amount(budget[threshold.measure]),
              limit: amount(budget.limit),
              month: budget.month,
            })}
          </Text>
        </span>
      );
    }
    case "disconnected":
    case "paused":
      return (
        <span>
          {need.kind === "paused" ? <ResumeLink cluster={cluster}>{text("home.paused")}</ResumeLink> : text("home.disconnected")}{" "}
          <Text span size="sm" c="dimmed">
            {text(`home.${need.kind}_details`)}
          </Text>
        </span>
      );
  }
}
