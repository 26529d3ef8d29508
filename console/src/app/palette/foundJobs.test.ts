import { expect, test } from "vitest";
import { detailsOf, found, type FoundJob } from "./foundJobs";

function job(id: string, name: string, state = "COMPLETED"): FoundJob {
  return { job_id: id, name, user: "ada", state };
}

test("jobs are told with the words for states of all pages", () => {
  const words = ["COMPLETED", "PENDING", "CANCELLED", "TIMEOUT"].map((state) => detailsOf(job("6", "fit", state)));

  expect(words).toEqual(["#6 · ada · Done", "#6 · ada · Waiting", "#6 · ada · Cancelled", "#6 · ada · Failed"]);
});

test("jobs are those of the answers, and those of the list that have the number or the name", () => {
  const known = [job("61", "relax"), job("7", "ticker"), job("8", "other")];

  expect(found("#6", [job("6", "ticker")], known).map(({ job_id }) => job_id)).toEqual(["6", "61"]);
  expect(found("TICK", [job("6", "ticker")], known).map(({ job_id }) => job_id)).toEqual(["6", "7"]);
  expect(found(" ", [job("6", "ticker")], known)).toEqual([]);
});

test("what the gateway has just answered of a job stands over the list, which may be older", () => {
  expect(found("6", [job("6", "ticker", "COMPLETED"), job("6", "ticker", "RUNNING")], [job("6", "ticker", "PENDING")])).toEqual([job("6", "ticker", "COMPLETED")]);
});
