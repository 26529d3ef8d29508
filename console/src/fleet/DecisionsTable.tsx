/** The decisions, the newest first. Each opens by its number. */

import { useMemo } from "react";
import { text } from "../texts";
import { DataTable, type Column } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { UserText } from "../ui/UserText";
import { count } from "../ui/format";
import { Moment } from "../ui/Moment";
import { TableBox } from "../ui/tables/TableBox";
import { changesText, jobsCount, reasonsText, type Decision } from "./decisions";
import classes from "./fleet.module.css";

interface Props {
  decisions: readonly Decision[];
  /** Whether they were read. */
  read: boolean;
  admin: boolean;
  open: (moment: string) => void;
  onEnd: () => void;
}

export function DecisionsTable({ decisions, read, admin, open, onEnd }: Props) {
  const columns: Column<Decision>[] = useMemo(
    () => [
      { id: "when", head: text("fleet.decisions.when"), width: "110px", cell: ({ at }) => <Moment at={at} /> },
      {
        id: "number",
        head: text("fleet.decisions.number"),
        width: "80px",
        cell: ({ at, generation }) => (
          <button type="button" className={classes.link} aria-label={text("fleet.decisions.open", { number: generation })} onClick={() => open(at)}>
            {generation}
          </button>
        ),
      },
      { id: "changes", head: text("fleet.decisions.changes"), width: "minmax(180px, 2fr)", cell: (decision) => <UserText cut>{changesText(decision)}</UserText> },
      { id: "reason", head: text("fleet.decisions.reason"), width: "minmax(220px, 4fr)", cell: (decision) => <UserText cut>{reasonsText(decision)}</UserText> },
      { id: "jobs", head: text("fleet.decisions.jobs"), width: "70px", numeric: true, cell: (decision) => count(jobsCount(decision)) },
    ],
    [open],
  );
  return (
    <TableBox rows={decisions.length}>
      <DataTable
        label={text("fleet.decisions.title")}
        rows={decisions}
        columns={columns}
        rowId={({ id }) => id}
        onEnd={onEnd}
        empty={read ? <Empty title={text(admin ? "fleet.decisions.none" : "fleet.decisions.hidden")}>{text(admin ? "fleet.decisions.none_details" : "fleet.decisions.none_member")}</Empty> : null}
      />
    </TableBox>
  );
}
