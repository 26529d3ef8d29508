/** One job: what it does, why and where, what it costs, and what it writes. */

import { Tabs } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo } from "react";
import { ProblemError } from "../../api/problem";
import type { JobExplanation, JobWithCost } from "../../api/schema";
import { text } from "../../texts";
import { Empty } from "../../ui/Empty";
import { UserText, visible } from "../../ui/UserText";
import { hasEnded, stateGroup } from "../../ui/jobStates";
import { Page } from "../../ui/Page";
import { ProblemView } from "../../ui/ProblemView";
import type { OutputChoice } from "../output/OutputView";
import { jobOutput } from "../output/source";
import { TABS, type Tab } from "../tabs";
import { isArray } from "../arrayRecords";
import { ArrayTasks } from "./ArrayTasks";
import { EndingBox } from "./EndingBox";
import { EventsTab } from "./tabs/EventsTab";
import { FilesTab } from "./tabs/FilesTab";
import { JobActions } from "./JobActions";
import classes from "./job.module.css";
import { JobHead } from "./JobHead";
import { SameTab } from "./tabs/SameTab";
import { CostBox, WhyBox } from "./SideBoxes";
import { ScriptTab } from "./tabs/ScriptTab";
import { StepsTab } from "./tabs/StepsTab";
import { Timeline } from "./tabs/Timeline";
import { UsedBox } from "./UsedBox";
import { useJob } from "./useJob";

const route = getRouteApi("/c/$cluster/jobs/$job");
const OutputView = lazy(() => import("../output/OutputView").then(({ OutputView: component }) => ({ default: component })));

export function JobPage() {
  const { cluster, job: jobId } = route.useParams();
  const { job, why, explains } = useJob(cluster, jobId);
  // Another job is another page: no dialog and no draft of this one stays for it.
  const page = `${cluster} ${jobId}`;
  const title = text("jobs.title", { number: jobId, name: visible(job.data?.name || (job.data ? text("jobs.unnamed") : "")) });
  const missing = job.error instanceof ProblemError && job.error.status === 404;
  return (
    <Page title={title} heading={<UserText>{title}</UserText>} actions={job.data ? <JobActions key={page} cluster={cluster} job={job.data} /> : null}>
      {missing ? <Empty title={text("job.missing")}>{text("job.missing_details")}</Empty> : null}
      {job.isError && !missing ? <ProblemView error={job.error} retry={() => void job.refetch()} /> : null}
      {job.data ? <Content key={page} cluster={cluster} job={job.data} why={why.data} explains={explains} /> : null}
      {job.isPending ? <div className={classes.skeleton} aria-label={text("ui.loading")} role="status" /> : null}
      {why.isError && job.data ? <ProblemView error={why.error} title={text("job.why.missing")} retry={() => void why.refetch()} /> : null}
    </Page>
  );
}

interface ContentProps {
  cluster: string;
  job: JobWithCost;
  why: JobExplanation | undefined;
  /** Whether that is of the state of the job, and not of one before. */
  explains: boolean;
}

function Content({ cluster, job, why, explains }: ContentProps) {
  const { tab = "output" } = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (chosen: string | null) =>
    void navigate({ search: (before) => ({ ...before, tab: chosen === "output" || chosen === null ? undefined : (chosen as Tab) }), replace: true });
  return (
    <>
      <JobHead cluster={cluster} job={job} />
      <Timeline cluster={cluster} job={job} why={explains ? why : undefined} />
      <EndingBox job={job} array={isArray(job)} />
      <div className={classes.columns}>
        <Tabs value={tab} onChange={choose} keepMounted={false} className={classes.main} classNames={{ panel: classes.panel ?? "" }}>
          <Tabs.List>
            {TABS.map((each) => (
              <Tabs.Tab key={each} value={each}>
                {text(`job.tab.${each}`)}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          <Tabs.Panel value="output">
            {isArray(job) ? (
              <ArrayTasks cluster={cluster} job={job}>
                <Output cluster={cluster} job={job} />
              </ArrayTasks>
            ) : (
              <Output cluster={cluster} job={job} />
            )}
          </Tabs.Panel>
          <Tabs.Panel value="events">
            <EventsTab cluster={cluster} job={job.job_id} />
          </Tabs.Panel>
          <Tabs.Panel value="steps">
            <StepsTab cluster={cluster} job={job.job_id} />
          </Tabs.Panel>
          <Tabs.Panel value="script">
            <ScriptTab cluster={cluster} job={job.job_id} />
          </Tabs.Panel>
          <Tabs.Panel value="files">
            <FilesTab cluster={cluster} job={job} />
          </Tabs.Panel>
          <Tabs.Panel value="same">
            <SameTab cluster={cluster} job={job} />
          </Tabs.Panel>
        </Tabs>
        {/* It scrolls, so the keyboard reaches it. */}
        <div className={classes.side} tabIndex={0} role="region" aria-label={text("job.side")}>
          <WhyBox cluster={cluster} why={why} job={job} explains={explains} />
          <CostBox cluster={cluster} job={job} why={why} />
          <UsedBox job={job} />
        </div>
      </div>
    </>
  );
}

function Output({ cluster, job }: Omit<ContentProps, "why" | "explains">) {
  const { stream, wrap, find } = route.useSearch();
  const navigate = route.useNavigate();
  const choose = useCallback(
    (to: Partial<OutputChoice>) =>
      void navigate({
        search: (before) => ({
          ...before,
          ...(to.stream === undefined ? {} : { stream: to.stream === "stderr" ? ("stderr" as const) : undefined }),
          ...(to.wrap === undefined ? {} : { wrap: to.wrap || undefined }),
          ...(to.find === undefined ? {} : { find: to.find || undefined }),
        }),
        replace: true,
      }),
    [navigate],
  );
  const source = useMemo(() => jobOutput(cluster, job.job_id, stream ?? "stdout"), [cluster, job.job_id, stream]);
  if (stateGroup(job.state) === "waiting") {
    return <Empty title={text("job.output.waits")}>{text(job.array_tasks ? "job.output.array" : "job.output.waits_details")}</Empty>;
  }
  return (
    <Suspense fallback={<div className={classes.skeleton} />}>
      <OutputView
        source={source}
        running={!hasEnded(job.state)}
        hasErrors={Boolean(job.standard_error)}
        choice={{ stream: stream ?? "stdout", wrap: wrap ?? false, find: find ?? "" }}
        choose={choose}
      />
    </Suspense>
  );
}
