/** The selection of rows in the page's state. Other filters begin with none. */

import { createContext, useCallback, useMemo, useRef, useState } from "react";
import type { Job } from "../../api/schema";
import type { Filters } from "../filters/filters";
import type { Row } from "../rows";
import { NO_SELECTION, toggled, type RowSelection } from "./rowSelection";

export interface SelectionControl {
  selection: RowSelection;
  toggle: (row: Row) => void;
  toggleAll: () => void;
  clear: () => void;
}

/** For the cells of the table: a column with the selection in it would draw all cells anew. */
export const SelectionContext = createContext<SelectionControl | null>(null);

export function useRowSelection(cluster: string, filters: Filters, matching: readonly Job[]): SelectionControl {
  const [kept, keep] = useState({ cluster, filters, selection: NO_SELECTION });
  const selection = kept.cluster === cluster && kept.filters === filters ? kept.selection : NO_SELECTION;
  const latest = useRef({ cluster, filters, selection, matching });
  latest.current = { cluster, filters, selection, matching };
  const change = useCallback((next: RowSelection) => {
    const { cluster: of, filters: by } = latest.current;
    keep({ cluster: of, filters: by, selection: next });
  }, []);
  const toggle = useCallback((row: Row) => change(toggled(latest.current.selection, row, latest.current.matching)), [change]);
  const toggleAll = useCallback(() => change(latest.current.selection === "all" ? NO_SELECTION : "all"), [change]);
  const clear = useCallback(() => change(NO_SELECTION), [change]);
  return useMemo(() => ({ selection, toggle, toggleAll, clear }), [selection, toggle, toggleAll, clear]);
}
