/** The live workers: what each does, since when, what it costs, and the jobs on it that the person sees. */

import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { WorkerView, Workers } from "../api/schema";
import { text } from "../texts";
import { DataTable, type Column, type Sort } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { UserText } from "../ui/UserText";
import { bareAmount, count, exact, short } from "../ui/format";
import { Elapsed, Moment } from "../ui/Moment";
import { TableBox } from "../ui/tables/TableBox";
import { WorkerState } from "./WorkerState";

interface Props {
  cluster: string;
  pages: readonly Workers[] | undefined;
  onEnd: () => void;
}

export function WorkersTable({ cluster, pages, onEnd }: Props) {
  const [sort, setSort] = useState<Sort | null>(null);
  const rows = useMemo(() => pages?.flatMap(({ workers }) => workers ?? []) ?? [], [pages]);
  const columns = useMemo(() => workerColumns(cluster), [cluster]);
  const first = pages?.[0];
  const unheard = first !== undefined && first.workers === null;
  const empty = unheard ? (
    <Empty title={text("fleet.workers.unheard")}>{text("fleet.workers.unheard_details")}</Empty>
  ) : (
    <Empty title={text("fleet.workers.none")}>{text("fleet.workers.none_details")}</Empty>
  );
  return (
    <>
      <TableBox rows={rows.length}>
        <DataTable
          label={text("fleet.workers.title")}
          rows={rows}
          columns={columns}
          rowId={({ name }) => name}
          sort={sort}
          onSort={setSort}
          onEnd={onEnd}
          empty={first === undefined ? null : empty}
        />
      </TableBox>
      {first?.as_of ? (
        <Text size="xs" c="dimmed" mt={4} title={exact(new Date(first.as_of))}>
          {text("fleet.workers.as_of", { time: short(new Date(first.as_of)) })}
        </Text>
      ) : null}
    </>
  );
}

function workerColumns(cluster: string): Column<WorkerView>[] {
  return [
    { id: "state", head: text("fleet.workers.state"), width: "100px", value: ({ state }) => state ?? "", cell: ({ state }) => <WorkerState state={state} /> },
    { id: "name", head: text("fleet.workers.name"), width: "minmax(130px, 2fr)", value: ({ name }) => name, cell: ({ name }) => <UserText cut>{name}</UserText> },
    { id: "shape", head: text("fleet.workers.shape"), width: "minmax(100px, 1fr)", value: ({ shape }) => shape, cell: ({ shape }) => <UserText cut>{shape}</UserText> },
    {
      id: "jobs",
      head: text("fleet.workers.jobs"),
      width: "minmax(90px, 2fr)",
      value: ({ running_jobs }) => running_jobs,
      cell: (worker) => <JobLinks cluster={cluster} worker={worker} />,
    },
    {
      id: "since",
      head: text("fleet.workers.since"),
      width: "100px",
      numeric: true,
      value: ({ since }) => (since === null ? null : -Date.parse(since)),
      cell: ({ since }) => (since === null ? <Moment at={null} /> : <Elapsed from={since} to={null} />),
    },
    { id: "started", head: text("fleet.workers.started"), width: "96px", value: ({ started_at }) => Date.parse(started_at), cell: ({ started_at }) => <Moment at={started_at} /> },
    {
      id: "cpus",
      head: text("fleet.workers.cpus"),
      width: "88px",
      numeric: true,
      cell: ({ cpus, cpus_allocated }) => (cpus === null ? <Moment at={null} /> : text("fleet.workers.of", { used: count(cpus_allocated ?? 0), all: count(cpus) })),
    },
    {
      id: "cost",
      head: text("fleet.workers.cost"),
      width: "92px",
      numeric: true,
      value: ({ usd_per_hour }) => (usd_per_hour === null ? null : Number(usd_per_hour)),
      cell: ({ usd_per_hour, price_source }) => (
        <span title={price_source === "catalogue" ? text("fleet.workers.list_price") : undefined}>
          {usd_per_hour === null ? text("ui.chart.unknown") : bareAmount(Number(usd_per_hour))}
        </span>
      ),
    },
    { id: "machine", head: text("fleet.workers.machine"), width: "minmax(96px, 1fr)", value: ({ machine }) => machine, cell: ({ machine }) => <UserText cut>{machine}</UserText> },
    { id: "reason", head: text("fleet.workers.reason"), width: "minmax(110px, 2fr)", cell: (worker) => <UserText cut>{remark(worker)}</UserText> },
  ];
}

function remark({ leaves_by, reason }: WorkerView): string {
  const leaves = leaves_by === null ? "" : text("fleet.workers.leaves", { time: short(new Date(leaves_by)) });
  return [leaves, reason].filter(Boolean).join(" · ");
}

/** The jobs on a worker that the person sees, and how many others there are. */
function JobLinks({ cluster, worker }: { cluster: string; worker: WorkerView }) {
  const hidden = worker.running_jobs - worker.job_ids.length;
  return (
    <>
      {worker.job_ids.map((job) => (
        <span key={job}>
          <Link to="/c/$cluster/jobs/$job" params={{ cluster, job }}>
            {job}
          </Link>{" "}
        </span>
      ))}
      {hidden > 0 ? text("fleet.workers.hidden_jobs", { jobs: count(hidden) }) : null}
    </>
  );
}
