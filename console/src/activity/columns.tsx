/** The columns of the list of events. */

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { text } from "../texts";
import type { Column } from "../ui/tables/DataTable";
import { UserText } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import type { ActivityRow } from "./rows";

export function activityColumns(cluster: string): Column<ActivityRow>[] {
  return [
    { id: "when", head: text("activity.column.when"), width: "110px", cell: (row) => <Moment at={row.at} /> },
    { id: "what", head: text("activity.column.what"), width: "150px", cell: (row) => <UserText cut>{row.kind}</UserText> },
    {
      id: "subject",
      head: text("activity.column.subject"),
      width: "minmax(160px, 2fr)",
      cell: (row) => <TargetLink cluster={cluster} row={row} />,
    },
    { id: "who", head: text("activity.column.who"), width: "110px", cell: (row) => <UserText cut>{row.who}</UserText> },
    {
      id: "details",
      head: text("activity.column.details"),
      width: "minmax(200px, 4fr)",
      cell: (row) => <UserText cut>{row.details}</UserText>,
    },
  ];
}

function TargetLink({ cluster, row }: { cluster: string; row: ActivityRow }): ReactNode {
  const name = <UserText cut>{row.subject}</UserText>;
  const { target } = row;
  switch (target?.page) {
    case "job":
      return (
        <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: target.job }}>
          {name}
        </Link>
      );
    case "run":
      return (
        <Link to="/c/$cluster/workflows/runs/$run" params={{ cluster, run: target.run }}>
          {name}
        </Link>
      );
    case "fleet":
      return (
        <Link to="/c/$cluster/fleet" params={{ cluster }}>
          {name}
        </Link>
      );
    case "files":
      return (
        <Link to="/c/$cluster/files" params={{ cluster }}>
          {name}
        </Link>
      );
    case "templates":
      return (
        <Link to="/c/$cluster/templates" params={{ cluster }}>
          {name}
        </Link>
      );
    case "admin":
      return (
        <Link to="/c/$cluster/admin" params={{ cluster }}>
          {name}
        </Link>
      );
    case "costs":
      return (
        <Link to="/c/$cluster/costs" params={{ cluster }}>
          {name}
        </Link>
      );
    default:
      return name;
  }
}
