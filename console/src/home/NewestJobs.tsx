/** The newest jobs of the person. */

import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Job } from "../api/schema";
import { jobColumns } from "../jobs/columns";
import { text } from "../texts";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/Empty";

const SHOWN = 12;
const COLUMNS = ["state", "name", "number", "where", "ran", "when"];

interface Props {
  cluster: string;
  user: string;
  jobs: ReadonlyMap<string, Job> | undefined;
}

export function NewestJobs({ cluster, user, jobs }: Props) {
  const columns = useMemo(() => jobColumns(cluster), [cluster]);
  const rows = useMemo(() => {
    const own: Job[] = [];
    for (const job of jobs?.values() ?? []) {
      if (job.user === user) own.push(job);
      if (own.length === SHOWN) break;
    }
    return own;
  }, [jobs, user]);
  const empty = (
    <Empty
      title={text("home.no_jobs")}
      action={
        <Button renderRoot={(props) => <Link to="/c/$cluster/submit" params={{ cluster }} {...props} />}>
          {text("home.first_job")}
        </Button>
      }
    >
      {text("home.no_jobs_details")}
    </Empty>
  );
  return (
    <DataTable
      label={text("home.recent")}
      rows={rows}
      columns={columns}
      shown={COLUMNS}
      rowId={(job) => job.job_id}
      empty={jobs === undefined ? null : empty}
    />
  );
}
