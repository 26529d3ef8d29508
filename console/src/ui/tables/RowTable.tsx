/**
 * A table of any number of rows in their order, of which those in sight are drawn. Which columns are shown, and what rows
 * are sorted by, belongs to the page, which keeps it in its URL.
 */

import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useCallback, useEffect, useMemo, useRef, type ReactNode } from "react";
import { text } from "../../texts";
import { useRowLinks } from "./RowLink";
import classes from "./RowTable.module.css";
import { useScrollAnchoring } from "./scrollAnchoring";

export interface Column<Row> {
  id: string;
  head: string;
  /** Shown in place of the head, which stays the name of the column. */
  headCell?: () => ReactNode;
  cell: (row: Row) => ReactNode;
  /** What rows are sorted by; a column without it cannot be sorted. */
  value?: (row: Row) => string | number | null;
  /** A track of CSS grid, such as `minmax(120px, 2fr)`. */
  width?: string;
  numeric?: boolean;
}

export interface Sort {
  column: string;
  descending: boolean;
}

export interface TableProps<Row> {
  /** What the table has, for screen readers. */
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  /** The ids of the columns that are shown; all without it. */
  shown?: readonly string[];
  rowId: (row: Row) => string;
  sort?: Sort | null;
  onSort?: (sort: Sort | null) => void;
  /** Shown below the heads where there are no rows. */
  empty?: ReactNode;
  /** A line below the rows, such as sums. */
  footer?: ReactNode;
  /** Called as long as the last rows are in sight, or none are there: reads on where nothing is on its way. */
  onEnd?: () => void;
}

const ROW_HEIGHT = 32;
export function RowTable<Row>(props: TableProps<Row>) {
  const { label, rows, columns, shown, rowId, sort = null, onSort, empty, footer, onEnd } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const followed = useRowLinks();
  const idOf = useRef(rowId);
  idOf.current = rowId;
  // A new function would have all rows measured again at each scroll.
  const keyOf = useCallback(
    (index: number) => {
      const row = rows[index];
      return row === undefined ? index : idOf.current(row);
    },
    [rows],
  );
  const visible = useMemo(() => columns.filter(({ id }) => shown === undefined || shown.includes(id)), [columns, shown]);
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    getItemKey: keyOf,
    overscan: 8,
  });
  // Whatever brought the end into sight: a scroll, fewer rows, or no more than fit. The page knows what there is to read.
  useEffect(() => {
    if ((virtualizer.range?.endIndex ?? -1) >= rows.length - 1) onEnd?.();
  });
  useScrollAnchoring(scroller, { count: rows.length, keyAt: keyOf }, `${sort?.column} ${sort?.descending}`, ROW_HEIGHT);
  const template = visible.map(({ width }) => width ?? "minmax(90px, 1fr)").join(" ");

  function turn(column: Column<Row>) {
    if (column.value === undefined) return;
    if (sort?.column !== column.id) onSort?.({ column: column.id, descending: false });
    else onSort?.(sort.descending ? null : { column: column.id, descending: true });
  }

  return (
    <div
      ref={scroller}
      className={classes.scroller}
      role="table"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      tabIndex={0}
    >
      <div role="rowgroup" className={classes.heads}>
        <div role="row" aria-rowindex={1} className={classes.row} style={{ gridTemplateColumns: template }}>
          {visible.map((column) => (
            <div
              key={column.id}
              role="columnheader"
              className={classes.head}
              data-numeric={column.numeric}
              aria-sort={sort?.column === column.id ? (sort.descending ? "descending" : "ascending") : undefined}
            >
              {column.value === undefined || onSort === undefined ? (
                (column.headCell?.() ?? column.head)
              ) : (
                <button type="button" onClick={() => turn(column)} title={text("ui.table.sort_by", { column: column.head })}>
                  {column.head}
                  <span aria-hidden>{sort?.column === column.id ? (sort.descending ? " ↓" : " ↑") : ""}</span>
                </button>
              )}
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" className={classes.rows} onClick={followed} style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map((item) => {
          const row = rows[item.index];
          return row === undefined ? null : (
            <TableRow
              key={item.key}
              row={row}
              index={item.index}
              start={item.start}
              template={template}
              columns={visible as readonly Column<unknown>[]}
            />
          );
        })}
      </div>
      {rows.length === 0 && empty ? (
        <div role="rowgroup" className={classes.empty}>
          <div role="row">
            <div role="cell">{empty}</div>
          </div>
        </div>
      ) : null}
      {footer === undefined ? null : (
        <div role="rowgroup" className={classes.footer}>
          <div role="row">
            <div role="cell">{footer}</div>
          </div>
        </div>
      )}
    </div>
  );
}

interface RowProps {
  row: unknown;
  index: number;
  start: number;
  template: string;
  columns: readonly Column<unknown>[];
}

/** Drawn again only where its row has changed. */
const TableRow = memo(function TableRow({ row, index, start, template, columns }: RowProps) {
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className={classes.row}
      data-body
      style={{ gridTemplateColumns: template, transform: `translateY(${start}px)` }}
    >
      {columns.map((column) => (
        <div key={column.id} role="cell" className={classes.cell} data-numeric={column.numeric}>
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
});
