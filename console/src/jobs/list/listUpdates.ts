/** Puts what events tell into the list of jobs in the cache, and reads the records of which they tell too little. */

import type { QueryClient } from "@tanstack/react-query";
import type { LiveEvent } from "../../live/event";
import { hasEnded } from "../../ui/jobStates";
import { factOf, isComplete } from "./fact";
import { jobsPage, jobsQuery, readJob } from "../queries";
import { followed, patched, withPage, withRecord, type JobList } from "./list";
import type { SingleReads, Source } from "../../live/lists/singleReads";

/** The jobs of a page; the most that the gateway gives at once. */
export const PAGE = 1_000;

/** Changes the list in the cache, where one was read. */
export function updateList(queries: QueryClient, cluster: string, to: (list: JobList) => JobList): void {
  queries.setQueryData(jobsQuery(cluster).queryKey, (list) => (list === undefined ? list : to(list)));
}

/** Applies events, and asks for the records that they tell too little of. `caughtUp`: they are all since the list's position. */
export function applyEvents(queries: QueryClient, cluster: string, events: readonly LiveEvent[], reads: SingleReads | null, caughtUp: boolean): void {
  updateList(queries, cluster, (list) => (caughtUp ? followed(list, events) : patched(list, events)));
  const list = queries.getQueryData(jobsQuery(cluster).queryKey);
  if (list === undefined || reads === null) return;
  for (const event of events) requestComplete(list, event, reads);
}

/** A new job and one that ended are read, unless the list has something newer of them. */
function requestComplete(list: JobList, event: LiveEvent, reads: SingleReads): void {
  const fact = factOf(event);
  const row = fact === null ? undefined : list.index.get(fact.job_id);
  const job = row === undefined ? undefined : list.rows[row];
  if (row === undefined || job === undefined || list.positions[row] !== event.position) return;
  if (!isComplete(job) || hasEnded(job.state)) reads.want(job.job_id);
}

/** Reads single jobs into the list. Outside of the cache, whose reads may have begun before the event that asks. */
export function listSource(queries: QueryClient, cluster: string): Source {
  return {
    async one(jobId, signal) {
      const list = queries.getQueryData(jobsQuery(cluster).queryKey);
      const row = list?.index.get(jobId);
      const asked = row === undefined ? 0 : (list?.positions[row] ?? 0);
      const job = await readJob(cluster, jobId, signal);
      updateList(queries, cluster, (now) => withRecord(now, job, asked));
    },
    async many(signal) {
      const page = await jobsPage(cluster, { limit: PAGE }, signal);
      updateList(queries, cluster, (now) => ({ ...withPage(now, page.data, page.position ?? 0), cursor: now.cursor }));
    },
  };
}
