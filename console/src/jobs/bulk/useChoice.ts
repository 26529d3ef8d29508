/** The choice of rows in the page's state. Other filters begin with none. */

import { createContext, useCallback, useMemo, useRef, useState } from "react";
import type { Job } from "../../api/schema";
import type { Filters } from "../filters/filters";
import type { Row } from "../rows";
import { NO_CHOICE, toggled, type Choice } from "./choice";

export interface Choosing {
  choice: Choice;
  toggle: (row: Row) => void;
  toggleAll: () => void;
  clear: () => void;
}

/** For the cells of the table: a column with the choice in it would draw all cells anew. */
export const ChoosingContext = createContext<Choosing | null>(null);

export function useChoice(cluster: string, filters: Filters, matching: readonly Job[]): Choosing {
  const [kept, keep] = useState({ cluster, filters, choice: NO_CHOICE });
  const choice = kept.cluster === cluster && kept.filters === filters ? kept.choice : NO_CHOICE;
  const latest = useRef({ cluster, filters, choice, matching });
  latest.current = { cluster, filters, choice, matching };
  const change = useCallback((next: Choice) => {
    const { cluster: of, filters: by } = latest.current;
    keep({ cluster: of, filters: by, choice: next });
  }, []);
  const toggle = useCallback((row: Row) => change(toggled(latest.current.choice, row, latest.current.matching)), [change]);
  const toggleAll = useCallback(() => change(latest.current.choice === "all" ? NO_CHOICE : "all"), [change]);
  const clear = useCallback(() => change(NO_CHOICE), [change]);
  return useMemo(() => ({ choice, toggle, toggleAll, clear }), [choice, toggle, toggleAll, clear]);
}
