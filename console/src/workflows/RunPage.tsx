/** One run: its steps as a graph and as a table, resume and cancel. */

import { Button, Group, Skeleton, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, body } from "../api/client";
import { asProblem } from "../api/problem";
import type { RunView } from "../api/schema";
import { refetchQuery, refetchQueries } from "../api/queries";
import { OtherOwners } from "../app/OtherOwners";
import { useLiveRefetch } from "../live/useLive";
import { text } from "../texts";
import { Confirm } from "../ui/forms/Confirm";
import { DataTable } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { UserText, visible } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { StateMark } from "../ui/StateMark";
import { useSingleFlight } from "../ui/forms/useSingleFlight";
import { RunCostText } from "./RunCostText";
import { StepGraph } from "./graph/StepGraph";
import { stepColumns } from "./runColumns";
import { runJobsQuery, runQuery, runsQuery } from "./queries";
import { concerns, isOver, isResumable, likeJob, running } from "./runs";
import { Tabs } from "./Tabs";
import classes from "./Workflows.module.css";

const route = getRouteApi("/c/$cluster/workflows/runs/$run");

export function RunPage() {
  const { cluster, run: runId } = route.useParams();
  const queries = useQueryClient();
  const run = useQuery(runQuery(cluster, runId));
  const jobs = useQuery(runJobsQuery(cluster, run.data));
  useLiveRefetch(
    ["run.", "job."],
    () => refetchQuery(run).then(() => refetchQueries(queries, ["run-jobs", cluster, runId])),
    ({ data }) => data["run_id"] === runId || (run.data !== undefined && concerns([run.data], data["job_id"])),
  );
  const columns = useMemo(() => stepColumns(cluster, jobs.data ?? new Map()), [cluster, jobs.data]);
  const title = visible(run.data?.run_name ?? text("workflows.runs"));
  return (
    <Page
      title={title}
      heading={<UserText>{title}</UserText>}
      actions={run.data ? <Acts key={runId} cluster={cluster} run={run.data} /> : null}
    >
      <Tabs cluster={cluster} />
      {run.isPending ? <Skeleton height={120} /> : null}
      {run.isError ? <NotRead error={run.error} retry={() => void run.refetch()} /> : null}
      {run.data ? (
        <>
          <Group gap="md" className={classes.about}>
            <StateMark state={likeJob(run.data)} word={text(`workflows.state.${run.data.state}`)} />
            <Text size="sm">
              <UserText>{text("workflows.run.by", { user: run.data.user })}</UserText> <Moment at={run.data.created_at} />
            </Text>
            <RunCostText key={runId} cluster={cluster} run={run.data} />
          </Group>
          <StepGraph cluster={cluster} steps={run.data.steps} />
          <DataTable label={text("workflows.column.steps")} rows={run.data.steps} columns={columns} rowId={(step) => step.step_id} />
        </>
      ) : null}
    </Page>
  );
}

function NotRead({ error, retry }: { error: unknown; retry: () => void }) {
  return asProblem(error).status === 404 ? (
    <Empty title={text("workflows.run.missing")}>{text("workflows.run.missing_details")}</Empty>
  ) : (
    <ProblemView error={error} retry={retry} />
  );
}

function Acts({ cluster, run }: { cluster: string; run: RunView }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const params = { path: { cluster_id: cluster, run_id: run.run_id } };
  const changed = (after: RunView) => {
    queries.setQueryData(runQuery(cluster, run.run_id).queryKey, after);
    void queries.invalidateQueries({ queryKey: ["run-jobs", cluster, run.run_id] });
    void queries.invalidateQueries({ queryKey: runsQuery(cluster).queryKey });
  };
  const resume = useMutation({
    mutationFn: useSingleFlight(() => body(api.POST("/v1/clusters/{cluster_id}/runs/{run_id}/resume", { params }))),
    onSuccess: changed,
  });
  return (
    <>
      {isResumable(run) ? (
        <Button loading={resume.isPending} title={text("workflows.run.resume_help")} onClick={() => resume.mutate()}>
          {text("workflows.run.resume")}
        </Button>
      ) : null}
      {isOver(run) ? null : (
        <Button variant="default" disabled={run.state === "cancelling"} onClick={() => setAsking(true)}>
          {text("workflows.run.cancel")}
        </Button>
      )}
      {resume.isError ? <ProblemView error={resume.error} /> : null}
      <Confirm
        opened={asking}
        close={() => setAsking(false)}
        title={text("workflows.run.cancel_title")}
        verb={text("workflows.run.cancel")}
        act={async () => changed(await body(api.DELETE("/v1/clusters/{cluster_id}/runs/{run_id}", { params })))}
      >
        <OtherOwners owners={[run.user]} />
        <Text size="sm">
          <UserText>{run.run_name}</UserText>
        </Text>
        <Text size="sm">{text("workflows.run.cancel_text", { count: running(run) })}</Text>
      </Confirm>
    </>
  );
}
