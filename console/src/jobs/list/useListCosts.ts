/** The costs of the list in components: read while their column is shown, as far as rows in sight need them. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, useCallback, useMemo, useRef, useState } from "react";
import { JOB_ENDS } from "../../live/event";
import { useLiveRefetch } from "../../live/useLive";
import { listCostsQuery, nextCosts } from "../queries";
import { NO_COSTS, type ListCosts } from "./costs";

/** The shortest time between two reads after events: each reads the newest jobs, of which most did not change. */
const PAUSE_MS = 10_000;

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
  useLiveRefetch(["job.running", ...JOB_ENDS], () => (wanted && known ? refetch().then(rested) : undefined));
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

function rested(): Promise<void> {
  return new Promise((done) => setTimeout(done, PAUSE_MS));
}
