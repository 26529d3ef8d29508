/** The estimate of a workflow's steps in components: of each the one of a job, which is kept while its script stays. */

import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import type { RenderedScript } from "../../api/schema";
import { stepEstimatesQuery } from "../queries";
import type { Estimated } from "../useEstimate";
import { jobOfTemplate } from "./jobOfTemplate";
import { MOST_STEPS, together, type StepsEstimate } from "./stepEstimates";

/** Null estimates nothing. The array must be the same as long as the steps are. */
export function useStepEstimates(cluster: string, steps: readonly RenderedScript[] | null): Estimated<StepsEstimate> {
  const queries = useQueryClient();
  const submissions = useMemo(() => steps?.slice(0, MOST_STEPS).map(({ script }) => jobOfTemplate(script)) ?? null, [steps]);
  const { data, isFetching, refetch } = useQuery({ ...stepEstimatesQuery(cluster, submissions), placeholderData: keepPreviousData });
  const estimate = useMemo(() => steps && together(steps, data), [steps, data]);
  async function again(): Promise<void> {
    await queries.invalidateQueries({ queryKey: ["estimate", cluster], refetchType: "none" });
    await refetch();
  }
  return { estimate, error: null, current: !isFetching, again: () => void again() };
}
