/** What all clusters of the workspace cost now and in this month. */

import { Group, Select, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { profileQuery } from "../api/queries";
import type { CostSummary } from "../api/schema";
import { useIsAdmin } from "../app/useIsAdmin";
import { text } from "../texts";
import { DataTable, type Column, type Sort } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { UserText, visible } from "../ui/UserText";
import { count } from "../ui/format";
import { ProblemView } from "../ui/ProblemView";
import { TableBox } from "../ui/tables/TableBox";
import { bare } from "./amounts";
import classes from "./money.module.css";
import { tenantSummaryQuery, type Of } from "./queries";
import type { CostsSearch } from "./routes";

type Row = CostSummary["rows"][number];

const ALL_OF: readonly Of[] = ["cluster", "user", "account", "tenant"];
const AMOUNTS = [
  { id: "burn", field: "burn_rate_per_hour" },
  { id: "pending", field: "pending_bill" },
  { id: "queued", field: "queued" },
  { id: "month", field: "month_to_date" },
  { id: "forecast", field: "forecast" },
] as const;

interface Props {
  search: CostsSearch;
  change: (part: CostsSearch) => void;
}

export function ClustersTab({ search, change }: Props) {
  const { of = "cluster" } = search;
  const [sort, setSort] = useState<Sort | null>(null);
  const profile = useQuery(profileQuery);
  const admin = useIsAdmin();
  const summary = useQuery(tenantSummaryQuery(of));
  const columns = useMemo(() => summaryColumns(of), [of]);
  const rows = summary.data?.rows ?? [];
  const own = rows.length > 0 && rows.every(({ purpose }) => purpose === "job") && !admin;
  const title = text("money.clusters.title", { tenant: visible(profile.data?.tenant.name ?? "") });
  return (
    <section className={classes.section} aria-label={title}>
      <Group justify="space-between" align="end" mb="xs">
        <Title order={2} fz="lg">
          {title}
        </Title>
        <Select
          label={text("money.clusters.by")}
          data={ALL_OF.map((value) => ({ value, label: text(`money.clusters.${value}`) }))}
          value={of}
          onChange={(value) => change({ of: ALL_OF.find((each) => each === value) })}
          w={160}
        />
      </Group>
      {own ? <Text size="sm">{text("money.own")}</Text> : null}
      {summary.isError ? <ProblemView error={summary.error} retry={() => void summary.refetch()} /> : null}
      {summary.data?.complete === false ? <Text size="sm">{text("money.incomplete")}</Text> : null}
      <TableBox rows={rows.length}>
        <DataTable
          label={title}
          rows={rows}
          columns={columns}
          rowId={({ purpose, name }) => `${purpose} ${name ?? ""}`}
          sort={sort}
          onSort={setSort}
          empty={summary.isSuccess ? <Empty title={text("money.clusters.none")} /> : null}
        />
      </TableBox>
      <Text size="xs" c="dimmed" mt={4}>
        {text("money.clusters.sums")}
      </Text>
    </section>
  );
}

function summaryColumns(of: Of): Column<Row>[] {
  return [
    {
      id: "name",
      head: text(`money.clusters.${of}`),
      width: "minmax(160px, 2fr)",
      value: ({ name }) => name,
      cell: ({ name, purpose }) => (name === null ? text(purpose === "overhead" ? "money.clusters.overhead" : "money.none_named") : <UserText cut>{name}</UserText>),
    },
    { id: "jobs", head: text("money.clusters.jobs"), width: "110px", numeric: true, value: ({ running_jobs }) => running_jobs, cell: ({ running_jobs }) => count(running_jobs) },
    ...AMOUNTS.map(({ id, field }) => ({
      id,
      head: text(`money.clusters.${id}`),
      width: "minmax(130px, 1fr)",
      numeric: true,
      value: (row: Row) => (row[field] === null ? null : Number(row[field].amount)),
      cell: (row: Row) => bare(row[field]),
    })),
    {
      id: "remark",
      head: text("money.clusters.remark"),
      width: "minmax(150px, 1fr)",
      cell: ({ stale, unknown }) => [unknown ? text("money.table.unknown") : "", stale ? text("money.table.stale") : ""].filter(Boolean).join(", "),
    },
  ];
}
