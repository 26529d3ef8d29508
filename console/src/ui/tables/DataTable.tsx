/** A table of rows that it sorts itself, by the values of its columns. */

import { createSortedRowModel, rowSortingFeature, sortFns, tableFeatures, useTable, type ColumnDef, type RowData, type SortingState } from "@tanstack/react-table";
import { useMemo } from "react";
import { RowTable, type Column, type TableProps } from "./RowTable";

export type { Column, Sort } from "./RowTable";

const features = tableFeatures({ rowSortingFeature, sortedRowModel: createSortedRowModel(), sortFns });

export function DataTable<Row extends RowData>(props: TableProps<Row>) {
  const { rows, columns, rowId, sort = null } = props;
  const definitions = useMemo(() => columns.map(definition), [columns]);
  const sorting: SortingState = useMemo(() => (sort === null ? [] : [{ id: sort.column, desc: sort.descending }]), [sort]);
  const table = useTable({ features, data: rows, columns: definitions, getRowId: rowId, state: { sorting } });
  const model = table.getRowModel().rows;
  const sorted = useMemo(() => model.map(({ original }) => original), [model]);
  return <RowTable {...props} rows={sorted} />;
}

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
