/** The list of jobs. */

import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { text } from "../texts";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/Empty";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { jobColumns } from "./columns";
import { useJobs } from "./useJobs";

const route = getRouteApi("/c/$cluster/jobs");

export function JobsPage() {
  const { cluster } = route.useParams();
  const { sort, descending } = route.useSearch();
  const navigate = route.useNavigate();
  const jobs = useJobs(cluster);
  const columns = useMemo(() => jobColumns(cluster), [cluster]);
  const rows = useMemo(() => [...(jobs.data?.jobs.values() ?? [])], [jobs.data]);
  return (
    <Page title={text("app.page.jobs")}>
      {jobs.isError ? <ProblemView error={jobs.error} retry={() => void jobs.refetch()} /> : null}
      <DataTable
        label={text("app.page.jobs")}
        rows={rows}
        columns={columns}
        rowId={(job) => job.job_id}
        sort={sort === undefined ? null : { column: sort, descending: descending ?? false }}
        onSort={(chosen) =>
          void navigate({
            search: chosen === null ? {} : { sort: chosen.column, ...(chosen.descending ? { descending: true } : {}) },
            replace: true,
          })
        }
        empty={jobs.isSuccess ? <Empty title={text("jobs.none")}>{text("jobs.none_details")}</Empty> : null}
      />
    </Page>
  );
}
