/** The columns of the list of jobs. */

import { Link } from "@tanstack/react-router";
import type { Job } from "../api/schema";
import { text } from "../texts";
import type { Column } from "../ui/DataTable";
import { Foreign } from "../ui/Foreign";
import { Elapsed, Moment } from "../ui/Moment";
import { StateMark } from "../ui/StateMark";

export function jobColumns(cluster: string): Column<Job>[] {
  return [
    { id: "state", head: text("jobs.column.state"), width: "110px", value: (job) => job.state, cell: (job) => <StateMark state={job.state} /> },
    {
      id: "name",
      head: text("jobs.column.name"),
      width: "minmax(180px, 3fr)",
      value: (job) => job.name.toLowerCase(),
      cell: (job) => (
        <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: job.job_id }}>
          <Foreign cut>{job.name || text("jobs.unnamed")}</Foreign>
        </Link>
      ),
    },
    { id: "number", head: text("jobs.column.number"), width: "90px", numeric: true, value: (job) => Number.parseInt(job.job_id, 10), cell: (job) => job.job_id },
    { id: "user", head: text("jobs.column.user"), width: "minmax(80px, 1fr)", value: (job) => job.user, cell: (job) => <Foreign cut>{job.user}</Foreign> },
    {
      id: "where",
      head: text("jobs.column.where"),
      width: "minmax(120px, 2fr)",
      cell: (job) => <Foreign cut>{job.nodes?.length ? job.nodes.join(", ") : (job.reason ?? "")}</Foreign>,
    },
    {
      id: "waited",
      head: text("jobs.column.waited"),
      width: "110px",
      numeric: true,
      cell: (job) => <Elapsed from={job.submitted_at} to={job.started_at ?? job.ended_at} />,
    },
    {
      id: "ran",
      head: text("jobs.column.ran"),
      width: "110px",
      numeric: true,
      cell: (job) => (job.started_at ? <Elapsed from={job.started_at} to={job.ended_at} /> : null),
    },
    { id: "when", head: text("jobs.column.when"), width: "110px", value: (job) => Date.parse(job.submitted_at), cell: (job) => <Moment at={job.submitted_at} /> },
  ];
}
