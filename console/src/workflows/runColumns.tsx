/** The columns of the list of runs, and those of a run's steps. */

import { Link } from "@tanstack/react-router";
import type { Job, RunView, StepView } from "../api/schema";
import { text } from "../texts";
import type { Column } from "../ui/tables/DataTable";
import { UserText } from "../ui/UserText";
import { Elapsed, Moment } from "../ui/Moment";
import { StateMark } from "../ui/StateMark";
import { likeJob } from "./runs";
import { StepMark } from "./StepMark";

export function runColumns(cluster: string): Column<RunView>[] {
  return [
    {
      id: "state",
      head: text("workflows.column.state"),
      width: "110px",
      cell: (run) => <StateMark state={likeJob(run)} word={text(`workflows.state.${run.state}`)} />,
    },
    {
      id: "name",
      head: text("workflows.column.name"),
      width: "minmax(160px, 3fr)",
      cell: (run) => (
        <Link to="/c/$cluster/workflows/runs/$run" params={{ cluster, run: run.run_id }}>
          <UserText cut>{run.run_name}</UserText>
        </Link>
      ),
    },
    {
      id: "steps",
      head: text("workflows.column.steps"),
      width: "90px",
      numeric: true,
      cell: ({ steps }) =>
        text("workflows.steps_done", { done: steps.filter(({ state }) => state === "completed").length, total: steps.length }),
    },
    { id: "user", head: text("workflows.column.user"), width: "minmax(80px, 1fr)", cell: (run) => <UserText cut>{run.user}</UserText> },
    { id: "started", head: text("workflows.column.started"), width: "120px", cell: (run) => <Moment at={run.created_at} /> },
  ];
}

export function stepColumns(cluster: string, jobs: ReadonlyMap<string, Job>): Column<StepView>[] {
  const jobOf = (step: StepView) => (step.job_id === null ? undefined : jobs.get(step.job_id));
  return [
    { id: "state", head: text("workflows.step.state"), width: "120px", cell: (step) => <StepMark step={step} /> },
    { id: "name", head: text("workflows.step.name"), width: "minmax(120px, 2fr)", cell: (step) => <UserText cut>{step.step_id}</UserText> },
    {
      id: "job",
      head: text("workflows.step.job"),
      width: "80px",
      numeric: true,
      cell: (step) =>
        step.job_id === null ? null : (
          <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: step.job_id }}>
            {step.job_id}
          </Link>
        ),
    },
    { id: "after", head: text("workflows.step.after"), width: "minmax(100px, 1fr)", cell: (step) => <UserText cut>{step.depends_on.join(", ")}</UserText> },
    {
      id: "waited",
      head: text("workflows.step.waited"),
      width: "100px",
      numeric: true,
      cell: (step) => {
        const job = jobOf(step);
        return job === undefined ? null : <Elapsed from={job.submitted_at} to={job.started_at ?? job.ended_at} />;
      },
    },
    {
      id: "ran",
      head: text("workflows.step.ran"),
      width: "100px",
      numeric: true,
      cell: (step) => {
        const job = jobOf(step);
        return job?.started_at ? <Elapsed from={job.started_at} to={job.ended_at} /> : null;
      },
    },
    { id: "attempt", head: text("workflows.step.attempt"), width: "70px", numeric: true, cell: (step) => step.attempt },
    { id: "reason", head: text("workflows.step.reason"), width: "minmax(140px, 2fr)", cell: (step) => <UserText cut>{step.reason}</UserText> },
  ];
}
