import { QueryClient } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { api } from "../../api/client";
import { ProblemError } from "../../api/problem";
import { jobNumberQuery, jobSearchQuery } from "./queries";

const queries = () => new QueryClient({ defaultOptions: { queries: { retry: false } } });

function answering(get: (path: string, options: { params: object }) => Promise<unknown>) {
  const asked = vi.fn(get);
  vi.spyOn(api, "GET").mockImplementation(asked as unknown as typeof api.GET);
  return asked;
}

function refusing(status: number) {
  return answering(() => Promise.reject(new ProblemError({ type: "about:blank", title: "refused", status, detail: "", request_id: "" })));
}

test("a job that Slurm has forgotten is searched for in its accounting, too", async () => {
  const since = "2026-01-01T00:00:00.000Z";
  const asked = answering(() => Promise.resolve({ data: { jobs: [], total: 0 }, response: new Response() }));

  await queries().fetchQuery(jobSearchQuery("main", "ticker", null));
  await queries().fetchQuery(jobSearchQuery("main", "#6", since));

  expect(asked.mock.calls.map(([, { params }]) => params)).toEqual([
    { path: { cluster_id: "main" }, query: { search: "ticker", limit: 10 } },
    { path: { cluster_id: "main" }, query: { search: "6", limit: 10, submitted_after: since } },
  ]);
});

test("the job of a number is found by itself, however old it is", async () => {
  const asked = answering(() => Promise.resolve({ data: { job_id: "6" }, response: new Response() }));

  expect(await queries().fetchQuery(jobNumberQuery("main", "#6"))).toEqual([{ job_id: "6" }]);
  expect(asked.mock.calls[0]?.[1].params).toEqual({ path: { cluster_id: "main", job_id: "6" } });
});

test("a number of no job finds none, and a name is no number", async () => {
  const asked = refusing(404);

  expect(await queries().fetchQuery(jobNumberQuery("main", "6"))).toEqual([]);
  expect(await queries().fetchQuery(jobNumberQuery("main", "../6"))).toEqual([]);
  expect(asked).toHaveBeenCalledTimes(1);
});

test("a search that fails is a failure, and finds not nothing", async () => {
  refusing(503);

  await expect(queries().fetchQuery(jobNumberQuery("main", "6"))).rejects.toThrow("refused");
});
