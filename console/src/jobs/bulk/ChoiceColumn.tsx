/** The column by which rows are chosen. The arrow keys go from row to row in it. */

import { useContext, type KeyboardEvent } from "react";
import { text } from "../../texts";
import type { Column } from "../../ui/tables/RowTable";
import { visible } from "../../ui/UserText";
import classes from "../jobs.module.css";
import type { Row } from "../rows";
import { chosenPart, isEmpty } from "./choice";
import { ChoosingContext } from "./useChoice";

export const CHOICE_COLUMN: Column<Row> = {
  id: "chosen",
  head: text("jobs.choose.column"),
  headCell: () => <ChooseAll />,
  width: "24px",
  cell: (row) => <ChooseRow row={row} />,
};

function ChooseAll() {
  const choosing = useContext(ChoosingContext);
  if (choosing === null) return null;
  const { choice, toggleAll } = choosing;
  return <Box label={text("jobs.choose.all")} part={choice === "all" ? "all" : isEmpty(choice) ? "none" : "some"} toggle={toggleAll} />;
}

function ChooseRow({ row }: { row: Row }) {
  const choosing = useContext(ChoosingContext);
  if (choosing === null) return null;
  const { choice, toggle } = choosing;
  const name = visible(row.job.name || text("jobs.unnamed"));
  const label = text(row.kind === "array" ? "jobs.choose.array" : "jobs.choose.job", { name, number: row.id });
  return <Box label={label} part={chosenPart(choice, row)} toggle={() => toggle(row)} />;
}

interface BoxProps {
  label: string;
  part: ReturnType<typeof chosenPart>;
  toggle: () => void;
}

/** The browser's own checkbox: a list draws many of them at each scroll. */
function Box({ label, part, toggle }: BoxProps) {
  return (
    <input
      type="checkbox"
      className={classes.choice}
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
