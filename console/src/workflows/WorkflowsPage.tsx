/** The runs: jobs that start after each other. */

import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { readNextPage, retryPages } from "../api/nextPage";
import { refetchQuery } from "../api/queries";
import { positionOfPages, useLiveList } from "../live/lists/useLiveList";
import { text } from "../texts";
import { DataTable } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { runColumns } from "./runColumns";
import { runsQuery } from "./queries";
import { concerns } from "./runs";
import { StartWorkflow } from "./StartWorkflow";
import { Tabs } from "./Tabs";

const route = getRouteApi("/c/$cluster/workflows");

export function WorkflowsPage() {
  const { cluster } = route.useParams();
  const [starting, setStarting] = useState(false);
  const runs = useInfiniteQuery(runsQuery(cluster));
  const rows = useMemo(() => runs.data?.pages.flatMap((page) => page.runs) ?? [], [runs.data]);
  const columns = useMemo(() => runColumns(cluster), [cluster]);
  useLiveList({
    cluster,
    list: useMemo(() => positionOfPages(runs.data?.pages), [runs.data]),
    kinds: ["run.", "job."],
    again: () => refetchQuery(runs),
    take: (events) => events.filter(({ data }) => data["run_id"] !== undefined || concerns(rows, data["job_id"])),
  });
  const start = <Button onClick={() => setStarting(true)}>{text("workflows.start")}</Button>;
  return (
    <Page title={text("app.page.workflows")} actions={start}>
      <Tabs cluster={cluster} />
      {runs.isError ? <ProblemView error={runs.error} retry={() => retryPages(runs)} /> : null}
      <DataTable
        label={text("workflows.runs")}
        rows={rows}
        columns={columns}
        rowId={(run) => run.run_id}
        onEnd={() => readNextPage(runs)}
        empty={runs.isSuccess ? <Empty title={text("workflows.none")}>{text("workflows.none_details")}</Empty> : null}
      />
      {runs.hasNextPage ? (
        <Button variant="default" mt="xs" loading={runs.isFetchingNextPage} onClick={() => void runs.fetchNextPage()}>
          {text("workflows.more")}
        </Button>
      ) : null}
      {starting ? <StartWorkflow cluster={cluster} close={() => setStarting(false)} /> : null}
    </Page>
  );
}
