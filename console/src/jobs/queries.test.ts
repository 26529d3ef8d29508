import { QueryClient } from "@tanstack/react-query";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { api } from "../api/client";
import type { Job } from "../api/schema";
import { MOST_TASKS } from "./arrayRecords";
import { arrayTasksQuery, jobQuery } from "./queries";

function job(job_id: string, state: string, more: Partial<Job> = {}): Job {
  return { job_id, name: "fit", user: "ada", uid: 1, state, partition: "main", submitted_at: "2026-01-01T00:00:00Z", restarts: 0, ...more };
}

type Asked = { path: string; query: Record<string, unknown> };

function answering(answer: (asked: Asked) => unknown) {
  const get = (path: string, { params }: { params: { query?: Record<string, unknown> } }) =>
    Promise.resolve({ data: answer({ path, query: params.query ?? {} }), response: new Response() });
  vi.spyOn(api, "GET").mockImplementation(get as unknown as typeof api.GET);
}

describe("one job", () => {
  let queries: QueryClient;
  beforeEach(() => {
    queries = new QueryClient();
  });

  async function readAfter(known: Job, read: Job) {
    queries.setQueryData(jobQuery("main", "8").queryKey, known);
    answering(() => read);
    return queries.fetchQuery({ ...jobQuery("main", "8"), staleTime: 0 });
  }

  it("is not taken back by an answer from before what events told", async () => {
    const ended = job("8", "COMPLETED", { exit_code: 0, ended_at: "2026-01-01T00:01:00Z" });
    expect(await readAfter(ended, job("8", "RUNNING", { account: "chem" }))).toMatchObject({
      state: "COMPLETED", exit_code: 0, ended_at: "2026-01-01T00:01:00Z", account: "chem",
    });
  });

  it("waits again when it was requeued", async () => {
    const again = job("8", "PENDING", { restarts: 1, submitted_at: "2026-01-01T00:02:00Z" });
    expect(await readAfter(job("8", "COMPLETED"), again)).toEqual(again);
  });

  it("is as it was read where it is an array, which has tasks in several states", async () => {
    const waits = job("8", "PENDING", { array_tasks: "3-4" });
    expect(await readAfter(job("8", "RUNNING", { array_tasks: "2-4" }), waits)).toEqual(waits);
  });
});

describe("the tasks of an array", () => {
  const array = job("8", "RUNNING", { array_tasks: "3-4" });

  it("are counted from their records", async () => {
    const jobs = [job("8", "PENDING", { array_tasks: "3-4" }), job("8_1", "COMPLETED"), job("8_2", "RUNNING"), job("88", "FAILED")];
    answering(() => ({ jobs, total: jobs.length, cursor: null }));
    const { summary, more } = await new QueryClient().fetchQuery(arrayTasksQuery("main", array));
    expect([summary.counts, more]).toEqual([{ waiting: 2, running: 1, done: 1 }, false]);
  });

  it("are counted by the gateway where there are more than are read", async () => {
    const asked: Asked[] = [];
    answering((each) => {
      asked.push(each);
      if (each.path.endsWith("/counts")) return { states: { PENDING: 1, RUNNING: 150, COMPLETED: 900 }, total: 1_051 };
      return { jobs: [job("8", "PENDING", { array_tasks: "3-1002" })], total: 1_051, cursor: "next" };
    });
    const { summary, tasks } = await new QueryClient().fetchQuery(arrayTasksQuery("main", array));
    expect(summary).toMatchObject({ counts: { waiting: 1_000, running: 150, done: 900 }, waits: true, over: false });
    expect(tasks.length).toBeLessThanOrEqual(MOST_TASKS);
    const counted = asked.filter(({ path }) => path.endsWith("/counts"));
    expect(counted.map(({ query }) => query)).toMatchObject([{ search: "8", name: "fit", user: "ada", submitted_after: array.submitted_at }]);
  });
});
