/** All that the palette can find: pages, clusters, what one can do here, and jobs. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { clustersQuery, profileQuery } from "../../api/queries";
import { text } from "../../texts";
import { pageOf, pagesFor } from "../pages";
import { useOfferedActions } from "./actions";
import { detailsOf } from "./foundJobs";
import type { Entry } from "./ranking";
import { useJobSearch, type JobSearch } from "./useJobSearch";

export function useEntries(cluster: string, typed: string): { entries: Entry[] } & Omit<JobSearch, "jobs"> {
  const navigate = useNavigate();
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const { data: profile } = useQuery(profileQuery);
  const { data: clusters } = useQuery(clustersQuery);
  const acts = useOfferedActions();
  const { jobs, searching, failed } = useJobSearch(cluster, typed);

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
      details: detailsOf(job),
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
  return { entries, searching, failed };
}
