/** The time that is left of a session's job. */

import { useQuery } from "@tanstack/react-query";
import { jobQuery } from "../jobs/queries";
import { text } from "../texts";
import { duration } from "../ui/format";
import { useNow } from "../ui/useNow";
import { secondsLeft } from "./queries";

export function TimeLeft({ cluster, jobId }: { cluster: string; jobId: string }) {
  const job = useQuery(jobQuery(cluster, jobId));
  const now = useNow();
  if (job.data === undefined || !job.data.started_at || job.data.ended_at) return <span aria-hidden>–</span>;
  const left = secondsLeft(job.data, now);
  return left === null ? <span>{text("sessions.unlimited")}</span> : <span className="number">{duration(Math.round(left))}</span>;
}
