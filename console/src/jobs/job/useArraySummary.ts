/** The tasks of an array by state, from the same read as the table of its tasks. */

import { useQuery } from "@tanstack/react-query";
import type { JobWithCost } from "../../api/schema";
import { isArray } from "../arrayRecords";
import type { ArraySummary } from "../arraySummary";
import { arrayTasksQuery } from "../queries";

/** Null for a job that is no array, or of which no tasks are found; undefined until they are read. */
export function useArraySummary(cluster: string, job: JobWithCost): ArraySummary | null | undefined {
  const array = isArray(job);
  const { data } = useQuery({ ...arrayTasksQuery(cluster, job), enabled: array });
  if (!array || data?.tasks.length === 0) return null;
  return data?.summary;
}
