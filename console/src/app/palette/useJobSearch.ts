/** Searches jobs for what is typed in the palette, when the typing pauses. */

import { useDebouncedValue } from "@mantine/hooks";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { isComplete } from "../../jobs/list/list";
import { beginning } from "../../jobs/list/since";
import { jobsQuery } from "../../jobs/queries";
import { NO_CLUSTER } from "../rootRoute";
import { found, type FoundJob } from "./foundJobs";
import { jobNumberQuery, jobSearchQuery } from "./queries";

const PAUSE_MS = 200;

export interface JobSearch {
  jobs: FoundJob[];
  /** Whether an answer to what is typed is still to come. */
  searching: boolean;
  /** Whether jobs may be missing. */
  failed: boolean;
}

export function useJobSearch(cluster: string, text: string): JobSearch {
  const queries = useQueryClient();
  const typed = text.trim();
  const [asked] = useDebouncedValue(typed, PAUSE_MS);
  const known = queries.getQueryData(jobsQuery(cluster).queryKey);
  const since = beginning().toISOString();
  const enabled = cluster !== NO_CLUSTER && asked.length > 0;
  const recent = useQuery({ ...jobSearchQuery(cluster, asked, null), enabled });
  // A list that was read whole has these already, and reading the accounting is work for the cluster.
  const past = useQuery({ ...jobSearchQuery(cluster, asked, since), enabled: enabled && !(known !== undefined && isComplete(known, since)) });
  const numbered = useQuery({ ...jobNumberQuery(cluster, asked), enabled });
  const searches = [numbered, recent, past];
  const jobs = useMemo(
    () => found(typed, [...(numbered.data ?? []), ...(recent.data ?? []), ...(past.data ?? [])], known?.rows),
    [typed, known, numbered.data, recent.data, past.data],
  );
  const wanted = cluster !== NO_CLUSTER && typed !== "";
  return {
    jobs,
    searching: wanted && (typed !== asked || searches.some(({ isFetching }) => isFetching)),
    failed: wanted && searches.some(({ isError }) => isError),
  };
}
