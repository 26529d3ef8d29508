/** The costs of the list in components: read while their column is shown, as far as rows in sight need them. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, useCallback, useMemo, useRef, useState } from "react";
import { JOB_ENDS } from "../../live/event";
import { useLiveEvents } from "../../live/useLive";
import { listCostsQuery, nextCosts, readCosts } from "../queries";
import { NO_COSTS, type ListCosts } from "./costs";

/** The most costs that are read after events at the same time. Further jobs keep the cost of before, whose time they show. */
const MOST_READS = 20;

export interface CostsOfList {
  costs: ListCosts;
  /** Whether all jobs of the list are here, so that a folded array has all its tasks. */
  whole: boolean;
  /** Reads the next page, unless one is on its way or one failed. */
  readNext: () => void;
  error: Error | null;
  again: () => void;
}

export const CostsContext = createContext<CostsOfList>({
  costs: NO_COSTS, whole: false, readNext: () => undefined, error: null, again: () => undefined,
});

interface Wanted {
  since: Date;
  whole: boolean;
  /** Whether the column is shown, and the rows were read: costs come after them. */
  wanted: boolean;
}

export function useListCosts(cluster: string, { since, whole, wanted }: Wanted): CostsOfList {
  const queries = useQueryClient();
  const from = since.toISOString();
  const query = useQuery({ ...listCostsQuery(cluster, from), enabled: wanted });
  const { refetch } = query;
  const [failed, setFailed] = useState<Error | null>(null);
  const reading = useRef(false);
  const known = query.data !== undefined;
  const error = failed ?? query.error;
  const reads = useRef(0);
  // What a job costs while it runs is told by no event. The column has it as of when the list was opened.
  useLiveEvents(JOB_ENDS, (events) => {
    const jobs = [...new Set(events.map(({ subject }) => subject))].slice(0, MOST_READS - reads.current);
    if (!wanted || !known || jobs.length === 0) return;
    reads.current += jobs.length;
    void readCosts(queries, cluster, from, jobs).finally(() => (reads.current -= jobs.length));
  });
  const readNext = useCallback(() => {
    if (reading.current || !wanted || !known || failed !== null) return;
    reading.current = true;
    nextCosts(queries, cluster, from)
      .catch(setFailed)
      .finally(() => (reading.current = false));
  }, [queries, cluster, from, wanted, known, failed]);
  const again = useCallback(() => {
    setFailed(null);
    void refetch();
  }, [refetch]);
  const costs = query.data ?? NO_COSTS;
  return useMemo(() => ({ costs, whole, readNext, error, again }), [costs, whole, readNext, error, again]);
}
