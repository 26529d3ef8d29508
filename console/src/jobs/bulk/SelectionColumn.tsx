/** The column by which rows are selected. The arrow keys go from row to row in it. */

import { useContext, type KeyboardEvent } from "react";
import { text } from "../../texts";
import type { Column } from "../../ui/tables/RowTable";
import { visible } from "../../ui/UserText";
import classes from "../jobs.module.css";
import type { Row } from "../rows";
import { isEmpty, selectedPart } from "./rowSelection";
import { SelectionContext } from "./useRowSelection";

export const SELECTION_COLUMN: Column<Row> = {
  id: "selected",
  head: text("jobs.select.column"),
  headCell: () => <SelectAll />,
  width: "24px",
  cell: (row) => <SelectRow row={row} />,
};

function SelectAll() {
  const rowSelection = useContext(SelectionContext);
  if (rowSelection === null) return null;
  const { selection, toggleAll } = rowSelection;
  return <Box label={text("jobs.select.all")} part={selection === "all" ? "all" : isEmpty(selection) ? "none" : "some"} toggle={toggleAll} />;
}

function SelectRow({ row }: { row: Row }) {
  const rowSelection = useContext(SelectionContext);
  if (rowSelection === null) return null;
  const { selection, toggle } = rowSelection;
  const name = visible(row.job.name || text("jobs.unnamed"));
  const label = text(row.kind === "array" ? "jobs.select.array" : "jobs.select.job", { name, number: row.id });
  return <Box label={label} part={selectedPart(selection, row)} toggle={() => toggle(row)} />;
}

interface BoxProps {
  label: string;
  part: ReturnType<typeof selectedPart>;
  toggle: () => void;
}

/** The browser's own checkbox: a list draws many of them at each scroll. */
function Box({ label, part, toggle }: BoxProps) {
  return (
    <input
      type="checkbox"
      className={classes.checkbox}
      aria-label={label}
      checked={part === "all"}
      ref={(box) => {
        if (box !== null) box.indeterminate = part === "some";
      }}
      onChange={toggle}
      onKeyDown={toNeighbour}
    />
  );
}

function toNeighbour(event: KeyboardEvent<HTMLInputElement>): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const row = event.currentTarget.closest('[role="row"]');
  const index = Number(row?.getAttribute("aria-rowindex")) + (event.key === "ArrowDown" ? 1 : -1);
  const box = row?.closest('[role="table"]')?.querySelector<HTMLElement>(`[aria-rowindex="${index}"] input[type="checkbox"]`);
  if (!box) return;
  event.preventDefault();
  box.focus();
}
