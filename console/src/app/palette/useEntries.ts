/** All that the palette can find: pages, clusters, what one can do here, and jobs. */

import { useDebouncedValue } from "@mantine/hooks";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { useMemo } from "react";
import { clustersQuery, profileQuery } from "../../api/queries";
import type { Job } from "../../api/schema";
import { jobsQuery } from "../../jobs/queries";
import { text } from "../../texts";
import { NO_CLUSTER } from "../rootRoute";
import { pageOf, pagesFor } from "../pages";
import { useOfferedActions } from "./actions";
import { jobSearchQuery } from "./queries";
import type { Entry } from "./ranking";

const PAUSE_MS = 200;
/** The most jobs of the list that are looked through. */
const MOST_JOBS = 20_000;
const MOST_FOUND = 20;

export function useEntries(cluster: string, typed: string): { entries: Entry[]; searching: boolean } {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const { data: profile } = useQuery(profileQuery);
  const { data: clusters } = useQuery(clustersQuery);
  const acts = useOfferedActions();
  const [asked] = useDebouncedValue(typed.trim(), PAUSE_MS);
  const search = useQuery({ ...jobSearchQuery(cluster, asked), enabled: cluster !== NO_CLUSTER && asked.length > 0 });
  const known = queries.getQueryData(jobsQuery(cluster).queryKey)?.rows;
  const jobs = useMemo(() => found(typed, known, search.data ?? []), [typed, known, search.data]);

  const entries: Entry[] = [
    ...pagesFor(profile?.role).map(({ key, to }) => ({
      id: `page ${key}`,
      kind: "page" as const,
      label: text(`app.page.${key}`),
      run: () => void navigate({ to, params: { cluster } }),
    })),
    {
      id: "page tokens",
      kind: "page",
      label: text("app.person.tokens"),
      run: () => void navigate({ to: "/c/$cluster/tokens", params: { cluster } }),
    },
    ...acts.map(({ id, label, run }) => ({ id: `act ${id}`, kind: "act" as const, label, run })),
    ...jobs.map((job) => ({
      id: `job ${job.job_id}`,
      kind: "job" as const,
      label: job.name || text("jobs.unnamed"),
      details: `#${job.job_id} · ${job.user} · ${job.state}`,
      run: () => void navigate({ to: "/c/$cluster/jobs/$job", params: { cluster, job: job.job_id } }),
    })),
    ...(clusters?.clusters ?? [])
      .filter(({ id }) => id !== cluster)
      .map(({ id, name }) => ({
        id: `cluster ${id}`,
        kind: "cluster" as const,
        label: name || id,
        details: id,
        run: () => void navigate({ to: pageOf(path), params: { cluster: id } }),
      })),
  ];
  return { entries, searching: search.isFetching };
}

/** The jobs by number or name: those of the list that was read, and those that the gateway found. */
function found(typed: string, known: readonly Job[] | undefined, answered: readonly Job[]): Job[] {
  const wanted = typed.trim().replace(/^#/, "").toLowerCase();
  if (wanted === "") return [];
  const jobs = new Map(answered.map((job) => [job.job_id, job]));
  let looked = 0;
  for (const job of known ?? []) {
    if (jobs.size >= MOST_FOUND || ++looked > MOST_JOBS) break;
    if (job.job_id.startsWith(wanted) || job.name.toLowerCase().includes(wanted)) jobs.set(job.job_id, job);
  }
  return [...jobs.values()];
}
