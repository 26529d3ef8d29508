/** The script that the values of a form make, and what it would cost. */

import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { DryRender } from "../../api/schema";
import { useEstimate, type Estimated } from "../useEstimate";
import { renderQuery } from "../queries";
import type { FormRequest } from "../../parameters/values";
import { jobOfTemplate } from "./jobOfTemplate";
import type { StepsEstimate } from "./stepEstimates";
import { useStepEstimates } from "./useStepEstimates";

const REST_MS = 500;

export interface Rendered {
  rendered: DryRender | null;
  error: Error | null;
  current: boolean;
  /** Null where there is nothing to estimate, and for a workflow. */
  estimated: Estimated | null;
  /** Of a workflow; null for a job. */
  ofSteps: Estimated<StepsEstimate> | null;
}

interface Wanted {
  cluster: string;
  id: string;
  version: number | null;
  /** Null renders nothing. The object must be the same as long as the values are. */
  request: FormRequest | null;
  /** Whether what it would cost is asked for, too. */
  estimate: boolean;
}

export function useRendered({ cluster, id, version, request, estimate }: Wanted): Rendered {
  const [rested] = useDebouncedValue(request, REST_MS);
  const found = useQuery({ ...renderQuery(id, version, rested), placeholderData: keepPreviousData });
  const rendered = rested === null || found.isError ? null : (found.data ?? null);
  const steps = rendered?.steps ?? [];
  const script = estimate && steps.length === 1 && steps[0]?.step_id === null ? steps[0].script : null;
  const submission = useMemo(() => (script === null ? null : jobOfTemplate(script)), [script]);
  const estimated = useEstimate(cluster, submission);
  const workflow = estimate && script === null && rendered !== null && steps.length > 0 ? rendered.steps : null;
  const ofSteps = useStepEstimates(cluster, workflow);
  const current = rested === request && !found.isFetching;
  return {
    rendered,
    error: found.isError ? found.error : null,
    current,
    estimated: submission === null ? null : { ...estimated, current: estimated.current && current },
    ofSteps: workflow === null ? null : { ...ofSteps, current: ofSteps.current && current },
  };
}
