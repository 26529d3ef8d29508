/** The newest jobs of the person. */

import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Job } from "../api/schema";
import { jobColumns, tableColumns } from "../jobs/columns";
import { arranged, folded } from "../jobs/rows";
import { text } from "../texts";
import { RowTable } from "../ui/tables/RowTable";
import { Empty } from "../ui/Empty";

const SHOWN = 12;
const COLUMNS = ["state", "name", "number", "where", "ran", "when"];

interface Props {
  cluster: string;
  user: string;
  jobs: readonly Job[] | undefined;
  /** Whether all jobs were read: before, no job among them does not mean that there is none. */
  whole: boolean;
}

export function NewestJobs({ cluster, user, jobs, whole }: Props) {
  const columns = useMemo(() => tableColumns(jobColumns({ cluster })), [cluster]);
  const rows = useMemo(() => {
    const own = (jobs ?? []).filter((job) => job.user === user);
    return arranged(folded(own, new Set()), null).slice(0, SHOWN);
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
    <RowTable
      label={text("home.recent")}
      rows={rows}
      columns={columns}
      shown={COLUMNS}
      rowId={(row) => row.id}
      empty={whole ? empty : null}
    />
  );
}
