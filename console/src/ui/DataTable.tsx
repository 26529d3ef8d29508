/**
 * A table of any number of rows, of which those in sight are drawn. Columns are sorted by their heads; which ones are
 * shown, and their order, belong to the page, which keeps them in its URL.
 */

import {
  columnVisibilityFeature,
  createSortedRowModel,
  rowSortingFeature,
  sortFns,
  tableFeatures,
  useTable,
  type ColumnDef,
  type RowData,
  type SortingState,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useCallback, useMemo, useRef, type ReactNode } from "react";
import { text } from "../texts";
import classes from "./DataTable.module.css";

export interface Column<Row> {
  id: string;
  head: string;
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

interface Props<Row extends RowData> {
  /** What the table has, for screen readers. */
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  /** The ids of the columns that are shown; all without it. */
  shown?: readonly string[];
  rowId: (row: Row) => string;
  sort?: Sort | null;
  onSort?: (sort: Sort | null) => void;
  /** The rows come in their order already: the table sorts nothing, and shows only what they are sorted by. */
  sorted?: boolean;
  /** Shown below the heads where there are no rows. */
  empty?: ReactNode;
  /** A line below the rows, such as sums. */
  footer?: ReactNode;
  /** Called when the last rows come into sight. */
  onEnd?: () => void;
}

const ROW_HEIGHT = 32;
const NO_ROWS: never[] = [];
const features = tableFeatures({
  columnVisibilityFeature,
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns,
});

export function DataTable<Row extends RowData>(props: Props<Row>) {
  const { label, rows, columns, shown, rowId, sort = null, onSort, sorted: ordered = false, empty, footer, onEnd } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const definitions = useMemo(() => columns.map(definition), [columns]);
  const sorting: SortingState = useMemo(() => (sort === null || ordered ? [] : [{ id: sort.column, desc: sort.descending }]), [sort, ordered]);
  const columnVisibility = useMemo(
    () => Object.fromEntries(columns.map(({ id }) => [id, shown === undefined || shown.includes(id)])),
    [columns, shown],
  );
  const table = useTable({
    features,
    data: ordered ? NO_ROWS : rows,
    columns: definitions,
    getRowId: rowId,
    state: { sorting, columnVisibility },
  });
  const model = table.getRowModel().rows;
  const sorted = useMemo(() => (ordered ? rows : model.map(({ original }) => original)), [ordered, rows, model]);
  const idOf = useRef(rowId);
  idOf.current = rowId;
  // A new function would have all rows measured again at each scroll.
  const keyOf = useCallback(
    (index: number) => {
      const row = sorted[index];
      return row === undefined ? index : idOf.current(row);
    },
    [sorted],
  );
  const visible = useMemo(() => columns.filter(({ id }) => columnVisibility[id]), [columns, columnVisibility]);
  const virtualizer = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    getItemKey: keyOf,
    overscan: 12,
    onChange: ({ range }) => {
      if (range !== null && range.endIndex >= sorted.length - 1 && sorted.length > 0) onEnd?.();
    },
  });
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
      aria-rowcount={sorted.length + 1}
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
                column.head
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
      <div role="rowgroup" className={classes.rows} style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map((item) => {
          const row = sorted[item.index];
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
      {sorted.length === 0 && empty ? (
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

function definition<Row extends RowData>(column: Column<Row>): ColumnDef<typeof features, Row> {
  return {
    id: column.id,
    header: column.head,
    accessorFn: (row: Row) => column.value?.(row) ?? undefined,
    sortUndefined: "last",
    sortFn: "basic",
    enableSorting: column.value !== undefined,
  } as ColumnDef<typeof features, Row>;
}
