import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { api } from "../../api/client";
import type { Job } from "../../api/schema";
import type { LiveEvent } from "../../live/event";
import { SingleReads } from "../../live/lists/singleReads";
import { jobQuery, jobsQuery } from "../queries";
import { listOf } from "./list";
import { applyEvents, listSource } from "./listUpdates";

function job(id: string, more: Partial<Job> = {}): Job {
  return {
    job_id: id, name: "fit", user: "ada", uid: 1, state: "PENDING", partition: "main", qos: "normal",
    submitted_at: "2026-01-01T00:00:00Z", ...more,
  };
}

function event(position: number, id: string, state: string): LiveEvent {
  return { id: String(position), subject: id, time: "", position, data: { kind: "job.changed", ...job(id, { state }) } };
}

/** The reads of single jobs, which are answered one by one. */
function gateway() {
  const asked: { jobId: string; answer: (job: Job) => void }[] = [];
  const get = (_: string, { params }: { params: { path: { job_id: string } } }) =>
    new Promise((answer) => {
      asked.push({ jobId: params.path.job_id, answer: (data) => answer({ data, response: new Response() }) });
    });
  vi.spyOn(api, "GET").mockImplementation(get as unknown as typeof api.GET);
  return asked;
}

function cache(jobs: Job[]) {
  const queries = new QueryClient();
  queries.setQueryData(jobsQuery("main").queryKey, listOf({ jobs, total: jobs.length }, 10));
  const states = () => queries.getQueryData(jobsQuery("main").queryKey)?.rows.map(({ state }) => state);
  return { queries, states };
}

describe("whole records of the jobs in a list", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("are no answers to what was asked before the newest event", async () => {
    const asked = gateway();
    const { queries, states } = cache([job("1")]);
    // The page of the job reads it as well, and began before the job ended.
    void queries.fetchQuery(jobQuery("main", "1"));
    await vi.advanceTimersByTimeAsync(10);
    const reads = new SingleReads(listSource(queries, "main"));
    applyEvents(queries, "main", [event(12, "1", "COMPLETED")], reads, false);
    await vi.advanceTimersByTimeAsync(500);
    asked[0]?.answer(job("1", { state: "RUNNING" }));
    await vi.advanceTimersByTimeAsync(500);
    expect(states()).toEqual(["COMPLETED"]);
    expect(asked).toHaveLength(2);
    asked[1]?.answer(job("1", { state: "COMPLETED" }));
    await vi.advanceTimersByTimeAsync(500);
    expect(states()).toEqual(["COMPLETED"]);
    reads.end();
  });

  it("are asked for where events came while the list was read, once for each job", async () => {
    const asked = gateway();
    const { queries, states } = cache([job("1"), job("2")]);
    const reads = new SingleReads(listSource(queries, "main"));
    applyEvents(queries, "main", [event(11, "3", "PENDING"), event(12, "1", "COMPLETED"), event(13, "3", "RUNNING"), event(14, "2", "RUNNING")], reads, true);
    expect(states()).toEqual(["COMPLETED", "RUNNING", "RUNNING"]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.map(({ jobId }) => jobId).sort()).toEqual(["1", "3"]);
    reads.end();
  });
});
