/** The state of a session. One whose job failed has failed, as on the page of the job. */

import { useQuery } from "@tanstack/react-query";
import type { SessionDetail } from "../api/schema";
import { jobQuery } from "../jobs/queries";
import { text } from "../texts";
import { StateMark } from "../ui/StateMark";
import { failedAs, likeJob } from "./queries";

export function SessionState({ cluster, session }: { cluster: string; session: SessionDetail }) {
  const job = useQuery({ ...jobQuery(cluster, session.job_id), enabled: session.state === "ended" });
  const failed = failedAs(session.state, job.data?.state);
  if (failed !== null) return <StateMark state={failed} />;
  return <StateMark state={likeJob(session.state)} word={text(`sessions.state.${session.state}`)} />;
}
