/** One job. */

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { text } from "../texts";
import { Foreign, visible } from "../ui/Foreign";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { StateMark } from "../ui/StateMark";
import { jobQuery } from "./jobs";

const route = getRouteApi("/c/$cluster/jobs/$job");

export function JobPage() {
  const { cluster, job: jobId } = route.useParams();
  const job = useQuery(jobQuery(cluster, jobId));
  const title = text("jobs.title", { number: jobId, name: visible(job.data?.name ?? "") });
  return (
    <Page title={title} heading={<Foreign>{title}</Foreign>}>
      {job.isError ? <ProblemView error={job.error} retry={() => void job.refetch()} /> : null}
      {job.data ? <StateMark state={job.data.state} /> : null}
    </Page>
  );
}
