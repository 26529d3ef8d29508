/** One job, kept right by its events: what they tell is patched at once, the rest is read again. */

import { useQuery, useQueryClient, type Query } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { Refetcher } from "../../live/refetcher";
import { useFeed, useLiveEvents } from "../../live/useLive";
import { isArray } from "../arrayRecords";
import { arrayOf } from "../arrayTasks";
import { isOfState } from "./explained";
import { factOf, withFact } from "../list/fact";
import { jobCostsQuery, jobEventsQuery, jobQuery, jobTimelineQuery, whyQuery } from "../queries";

const SOON_MS = 500;
/** What is long to read, and changes little with each task of an array. */
const SLOW_MS = 5_000;
const SLOW: ReadonlySet<unknown> = new Set(["timeline", "events"]);
/** The tasks of an array are several pages, and its heading shows them. */
const TASKS_MS = 2_000;

type Speed = "quick" | "tasks" | "slow";

function speedOf(part: unknown): Speed {
  return part === "tasks" ? "tasks" : SLOW.has(part) ? "slow" : "quick";
}

/** Events of a job that its timeline has a stage for: it runs, waits anew, or has ended. */
const STAGES = /^job\.(?:running|requeued|completed|failed|cancelled|timeout)$/;

export function useJob(cluster: string, jobId: string) {
  const queries = useQueryClient();
  const job = useQuery(jobQuery(cluster, jobId));
  const why = useQuery(whyQuery(cluster, jobId));
  const readSoon = useRereadings(cluster, jobId);
  useLiveEvents(["job.", "action."], (events) => {
    const own = events.filter(({ subject }) => subject === jobId || arrayOf(subject) === jobId);
    if (own.length === 0) return;
    for (const event of own) {
      const fact = factOf(event);
      if (fact === null || fact.job_id !== jobId) continue;
      // An array is in the states of all its tasks, of which no event tells.
      queries.setQueryData(jobQuery(cluster, jobId).queryKey, (known) => (known === undefined || isArray(known) ? known : withFact(known, fact)));
    }
    readSoon(own.some(({ subject, data }) => subject === jobId && STAGES.test(data.kind)));
  });
  const explains = job.data !== undefined && why.data !== undefined && isOfState(why.data, job.data);
  useUntilExplained(job.data && `${jobId} ${job.data.state}`, explains, why.dataUpdatedAt, readSoon);
  return { job, why, explains };
}

/** The pauses before reading again an explanation of another state than the job's: no event tells of the planner's next look. */
const PAUSES_MS = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000];

/** `state` names the job and its state. */
function useUntilExplained(state: string | undefined, explains: boolean, readAt: number, read: (stage: boolean) => void): void {
  const tries = useRef(0);
  useEffect(() => {
    tries.current = 0;
  }, [state]);
  useEffect(() => {
    const pause = PAUSES_MS[tries.current];
    if (state === undefined || explains || readAt === 0 || pause === undefined) return undefined;
    const timer = setTimeout(() => {
      tries.current += 1;
      read(false);
    }, pause);
    return () => clearTimeout(timer);
  }, [state, explains, readAt, read]);
}

/** Reads again what events tell too little of; and after events that were not told. */
function useRereadings(cluster: string, jobId: string): (stage: boolean) => void {
  const queries = useQueryClient();
  const feed = useFeed();
  const current = useRef<Record<Speed, Refetcher> | null>(null);
  useEffect(() => {
    const refetcher = (speed: Speed) =>
      new Refetcher(async () => {
        const reads = { queryKey: ["job", cluster, jobId], predicate: ({ queryKey }: Query) => speedOf(queryKey[3]) === speed };
        // A read that is under way may have begun before what is told now.
        const underWay = queries.isFetching(reads) > 0;
        await queries.invalidateQueries(reads, { cancelRefetch: false });
        return !underWay;
      });
    const all = { quick: refetcher("quick"), tasks: refetcher("tasks"), slow: refetcher("slow") };
    current.current = all;
    const stopListening = feed.onReset(() => {
      for (const each of Object.values(all)) each.want(0);
    });
    return () => {
      stopListening();
      for (const each of Object.values(all)) each.end();
    };
  }, [queries, feed, cluster, jobId]);
  return useCallback((stage) => {
    current.current?.quick.want(SOON_MS);
    current.current?.tasks.want(TASKS_MS);
    current.current?.slow.want(stage ? SOON_MS : SLOW_MS);
  }, []);
}

export function useJobCosts(cluster: string, jobId: string) {
  return useQuery(jobCostsQuery(cluster, jobId));
}

export function useJobEvents(cluster: string, jobId: string) {
  return useQuery(jobEventsQuery(cluster, jobId));
}

export function useJobTimeline(cluster: string, jobId: string) {
  return useQuery(jobTimelineQuery(cluster, jobId));
}
