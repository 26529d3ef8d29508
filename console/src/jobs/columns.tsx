/** The columns of the list of jobs. Names come first; which ones are shown is in the URL. */

import type { Job } from "../api/schema";
import { text } from "../texts";
import type { Column } from "../ui/tables/RowTable";
import { count, percent } from "../ui/format";
import { UserText } from "../ui/UserText";
import { stateGroup, STATE_GROUPS } from "../ui/jobStates";
import { Elapsed, Moment } from "../ui/Moment";
import { reasonWord } from "../ui/reasonWord";
import { RowLink } from "../ui/tables/RowLink";
import { StateMark } from "../ui/StateMark";
import { jobAddress } from "./address";
import { ArrayCounts, ArrayName } from "./ArrayCells";
import { tasksOfRecord } from "./arrayTasks";
import { CostCell } from "./CostCell";
import { memoryOf } from "./figures";
import classes from "./jobs.module.css";
import type { Order, Row } from "./rows";

export interface JobColumn extends Omit<Column<Row>, "value"> {
  /** What rows are sorted by. */
  by?: Order["value"];
  /** Shown where nobody has chosen columns; `wide`: if the window has the room. */
  usual?: boolean | "wide";
}

export interface ColumnActions {
  cluster: string;
  /** Opens an array in place; without it arrays stay folded. */
  toggle?: (array: string) => void;
}

const time = (moment: string | null | undefined) => (moment ? Date.parse(moment) : null);
const ended = (job: Job) => time(job.ended_at) ?? Date.now();

function names({ cluster, toggle }: ColumnActions): JobColumn[] {
  return [
    {
      id: "state",
      head: text("jobs.column.state"),
      width: "104px",
      usual: true,
      by: (job) => STATE_GROUPS.indexOf(stateGroup(job.state)),
      cell: ({ job }) => <StateMark state={job.state} />,
    },
    {
      id: "name",
      head: text("jobs.column.name"),
      width: "minmax(190px, 3fr)",
      usual: true,
      by: (job) => job.name.toLowerCase(),
      cell: (row) =>
        row.kind === "array" ? (
          <ArrayName row={row} cluster={cluster} {...(toggle ? { toggle } : {})} />
        ) : (
          <RowLink href={jobAddress(cluster, row.job.job_id)} className={classes.name} task={row.kind === "task"}>
            <UserText cut>{row.job.name || text("jobs.unnamed")}</UserText>
          </RowLink>
        ),
    },
    {
      id: "number",
      head: text("jobs.column.number"),
      width: "100px",
      numeric: true,
      usual: true,
      by: (job) => Number.parseInt(job.job_id, 10),
      cell: ({ kind, id, job }) => (kind === "array" ? id : tasksOfRecord(job) ? `${job.job_id}_[${tasksOfRecord(job)}]` : job.job_id),
    },
    {
      id: "user",
      head: text("jobs.column.user"),
      width: "minmax(80px, 1fr)",
      usual: true,
      by: (job) => job.user.toLowerCase(),
      cell: ({ job }) => <UserText cut>{job.user}</UserText>,
    },
    {
      id: "where",
      head: text("jobs.column.where"),
      width: "minmax(140px, 2fr)",
      usual: true,
      cell: (row) =>
        row.kind === "array" ? (
          <ArrayCounts counts={row.counts} />
        ) : (
          <UserText cut>{row.job.nodes?.length ? row.job.nodes.join(", ") : reasonWord(row.job.reason ?? "")}</UserText>
        ),
    },
  ];
}

const TIMES: JobColumn[] = [
  {
    id: "waited",
    head: text("jobs.column.waited"),
    width: "100px",
    numeric: true,
    usual: true,
    by: (job) => (time(job.started_at) ?? ended(job)) - Date.parse(job.submitted_at),
    cell: ({ job }) => <Elapsed from={job.submitted_at} to={job.started_at ?? job.ended_at} />,
  },
  {
    id: "ran",
    head: text("jobs.column.ran"),
    width: "100px",
    numeric: true,
    usual: true,
    by: (job) => (job.started_at ? ended(job) - Date.parse(job.started_at) : null),
    cell: ({ job }) => (job.started_at ? <Elapsed from={job.started_at} to={job.ended_at} /> : null),
  },
  {
    id: "when",
    head: text("jobs.column.when"),
    width: "110px",
    numeric: true,
    usual: true,
    by: (job) => Date.parse(job.submitted_at),
    cell: ({ job }) => <Moment at={job.submitted_at} />,
  },
  {
    id: "started",
    head: text("jobs.column.started"),
    width: "110px",
    numeric: true,
    by: (job) => time(job.started_at),
    cell: ({ job }) => <Moment at={job.started_at} />,
  },
  {
    id: "ended",
    head: text("jobs.column.ended"),
    width: "110px",
    numeric: true,
    by: (job) => time(job.ended_at),
    cell: ({ job }) => <Moment at={job.ended_at} />,
  },
];

function words(id: "account" | "partition" | "qos", value: (job: Job) => string): JobColumn {
  return {
    id,
    head: text(`jobs.column.${id}`),
    width: "minmax(80px, 1fr)",
    by: (job) => value(job).toLowerCase(),
    cell: ({ job }) => <UserText cut>{value(job)}</UserText>,
  };
}

function figures(id: "cpus" | "memory" | "efficiency" | "peak" | "exit", value: (job: Job) => number | null | undefined, shown: (value: number) => string): JobColumn {
  return {
    id,
    head: text(`jobs.column.${id}`),
    width: "116px",
    numeric: true,
    by: value,
    cell: ({ job }) => {
      const figure = value(job);
      return figure === null || figure === undefined ? null : shown(figure);
    },
  };
}

const OTHERS: JobColumn[] = [
  words("account", (job) => job.account ?? ""),
  words("partition", (job) => job.partition),
  words("qos", (job) => job.qos ?? ""),
  figures("cpus", (job) => job.cpus, count),
  figures("memory", memoryOf, count),
  figures("efficiency", (job) => job.cpu_efficiency, percent),
  figures("peak", (job) => job.peak_memory_mib, count),
  figures("exit", (job) => job.exit_code, String),
];

/** The gateway cannot sort by it, and the list does not have all of them: it is no order here. */
const COST: JobColumn = {
  id: "cost",
  head: text("jobs.column.cost"),
  width: "104px",
  numeric: true,
  usual: "wide",
  cell: (row) => <CostCell row={row} />,
};

export function jobColumns(acts: ColumnActions): JobColumn[] {
  return [...names(acts), ...TIMES, COST, ...OTHERS];
}

/** The columns as the table takes them. */
export function tableColumns(columns: readonly JobColumn[]): Column<Row>[] {
  return columns.map(({ by, ...column }) => (by === undefined ? column : { ...column, value: (row) => by(row.job) ?? null }));
}
