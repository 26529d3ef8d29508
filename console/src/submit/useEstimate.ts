/** The estimate of what is being written: asked for when the writing rests, and never twice at the same time. */

import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { JobEstimate, ScriptSubmission } from "../api/schema";
import { estimateQuery } from "./queries";

const REST_MS = 500;

export interface Estimated<Estimate = JobEstimate> {
  estimate: Estimate | null;
  error: Error | null;
  /** Whether it is of what stands there now. */
  current: boolean;
  /** Asks again: what it costs and when it starts changes with time. */
  again: () => void;
}

/** Null estimates nothing. The object must be the same as long as the job is. */
export function useEstimate(cluster: string, submission: ScriptSubmission | null): Estimated {
  const [rested] = useDebouncedValue(submission, REST_MS);
  const found = useQuery({ ...estimateQuery(cluster, rested), placeholderData: keepPreviousData });
  return {
    estimate: rested === null || found.isError ? null : (found.data ?? null),
    error: found.isError ? found.error : null,
    current: rested === submission && !found.isFetching,
    again: () => void found.refetch(),
  };
}
