/** The workers that were bought for a job, each with its decision, which opens on the page of the fleet. */

import { Link } from "@tanstack/react-router";
import type { JobExplanation } from "../../api/schema";
import { useIsAdmin } from "../../app/useIsAdmin";
import { text } from "../../texts";
import { UserText } from "../../ui/UserText";
import { count } from "../../ui/format";
import { Moment } from "../../ui/Moment";
import { boughtFor } from "./bought";
import classes from "./job.module.css";
import { useJobTimeline } from "./useJob";

interface Props {
  cluster: string;
  job: string;
  why: JobExplanation | undefined;
}

export function BoughtList({ cluster, job, why }: Props) {
  const timeline = useJobTimeline(cluster, job);
  // Decisions name the jobs of all users, so only admins see them.
  const mayOpen = useIsAdmin();
  const bought = boughtFor(timeline.data?.stages ?? [], why?.bought ?? []);
  if (bought.length === 0) return null;
  return (
    <>
      <h3>{text("job.why.bought")}</h3>
      <ul className={classes.plain}>
        {bought.map(({ decision, at, shape, workers, reason }) => (
          <li key={`${decision} ${shape}`}>
            {workers === null ? null : `${count(workers)} × `}
            <UserText>{shape}</UserText>, <Moment at={at} />
            {" · "}
            {mayOpen ? (
              <Link to="/c/$cluster/fleet" params={{ cluster }} search={{ moment: at }}>
                {text("job.why.decision", { generation: count(decision) })}
              </Link>
            ) : (
              text("job.why.decision", { generation: count(decision) })
            )}
            {reason ? <span className={classes.quiet}> · <UserText>{reason}</UserText></span> : null}
          </li>
        ))}
      </ul>
    </>
  );
}
