/** The columns of all tables of costs: what it was, what for, what it cost, and for how long. */

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { CostEntry } from "../api/schema";
import { text } from "../texts";
import type { Column } from "../ui/tables/DataTable";
import { UserText } from "../ui/UserText";
import { fixed } from "../ui/format";
import { bare } from "./amounts";
import type { By } from "./byDay";
import { jobKey } from "./jobOrder";

export function costColumns(cluster: string, by: By): Column<CostEntry>[] {
  return [
    {
      id: "what",
      head: text(`money.by.${by}`),
      width: "minmax(160px, 3fr)",
      value: (row) => keyOf(row, by),
      cell: (row) => <What cluster={cluster} row={row} by={by} />,
    },
    {
      id: "purpose",
      head: text("money.table.purpose"),
      width: "minmax(130px, 1fr)",
      cell: ({ purpose }) => (
        <span title={purpose === "job" ? undefined : text(`money.purpose_details.${purpose}`)}>{text(`money.purpose.${purpose}`)}</span>
      ),
    },
    {
      id: "cost",
      head: text("money.table.cost"),
      width: "140px",
      numeric: true,
      value: ({ cost }) => (cost === null ? null : Number(cost.amount)),
      cell: ({ cost }) => bare(cost),
    },
    { id: "hours", head: text("money.table.hours"), width: "120px", numeric: true, value: ({ hours }) => hours, cell: ({ hours }) => fixed(hours, 3) },
    { id: "remark", head: text("money.table.remark"), width: "minmax(140px, 1fr)", cell: remark },
  ];
}

function remark({ stale, unknown }: CostEntry): ReactNode {
  return [unknown ? text("money.table.unknown") : "", stale ? text("money.table.stale") : ""].filter(Boolean).join(", ");
}

/** What rows are sorted by, and told apart by: numbers of jobs as numbers. */
function keyOf(row: CostEntry, by: By): string | number | null {
  return by === "job" ? jobKey(row.job_id) : valueOf(row, by);
}

function valueOf(row: CostEntry, by: By): string | null {
  return by === "job" ? row.job_id : (row[by] ?? null);
}

/** A row by itself: there is one of each purpose. */
export function rowId(row: CostEntry, by: By): string {
  return `${row.purpose} ${valueOf(row, by) ?? ""}`;
}

function What({ cluster, row, by }: { cluster: string; row: CostEntry; by: By }): ReactNode {
  const value = valueOf(row, by);
  if (value === null) return <span>{row.purpose === "job" ? text(by === "template" ? "money.no_template" : "money.none_named") : "–"}</span>;
  if (by !== "job") return <UserText cut>{value}</UserText>;
  return (
    <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: value }}>
      <UserText cut>{row.name ? `${value} ${row.name}` : value}</UserText>
    </Link>
  );
}
