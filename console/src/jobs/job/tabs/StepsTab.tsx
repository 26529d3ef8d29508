/** The steps of a job and what each cost. */

import { useMemo } from "react";
import type { StepCost } from "../../../api/schema";
import { text } from "../../../texts";
import { DataTable, type Column } from "../../../ui/tables/DataTable";
import { Empty } from "../../../ui/Empty";
import { count, money } from "../../../ui/format";
import { UserText } from "../../../ui/UserText";
import { Elapsed, Moment } from "../../../ui/Moment";
import { ProblemView } from "../../../ui/ProblemView";
import { StateMark } from "../../../ui/StateMark";
import { useJobCosts } from "../useJob";

function columnsOf(): Column<StepCost>[] {
  return [
    { id: "state", head: text("jobs.column.state"), width: "104px", cell: (step) => <StateMark state={step.state} /> },
    { id: "name", head: text("jobs.column.name"), width: "minmax(120px, 2fr)", cell: (step) => <UserText cut>{step.name || step.step_id}</UserText> },
    { id: "step", head: text("job.steps.step"), width: "80px", cell: (step) => <UserText cut>{step.step_id}</UserText> },
    { id: "when", head: text("jobs.column.started"), width: "110px", numeric: true, cell: (step) => <Moment at={step.started_at} /> },
    { id: "ran", head: text("jobs.column.ran"), width: "100px", numeric: true, cell: (step) => <Elapsed from={step.started_at} to={step.ended_at} /> },
    { id: "cpus", head: text("jobs.column.cpus"), width: "70px", numeric: true, cell: (step) => count(step.cpus) },
    { id: "memory", head: text("job.steps.memory"), width: "90px", numeric: true, cell: (step) => count(step.memory_mib) },
    {
      id: "cost",
      head: text("job.cost.title"),
      width: "120px",
      numeric: true,
      cell: (step) => (step.cost ? money(Number(step.cost.amount), step.cost.currency) : text("job.cost.unknown")),
    },
  ];
}

export function StepsTab({ cluster, job }: { cluster: string; job: string }) {
  const costs = useJobCosts(cluster, job);
  const columns = useMemo(columnsOf, []);
  if (costs.isError) return <ProblemView error={costs.error} retry={() => void costs.refetch()} />;
  const remainder = costs.data?.remainder;
  return (
    <DataTable
      label={text("job.tab.steps")}
      rows={costs.data?.steps ?? []}
      columns={columns}
      rowId={(step) => `${step.job_id} ${step.step_id} ${step.started_at}`}
      empty={costs.isSuccess ? <Empty title={text("job.steps.none")}>{text("job.steps.none_details")}</Empty> : null}
      {...(remainder && costs.data && costs.data.steps.length > 0
        ? { footer: text("job.steps.remainder", { cost: money(Number(remainder.amount), remainder.currency) }) }
        : {})}
    />
  );
}
