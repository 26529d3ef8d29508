import { expect, it } from "vitest";
import type { Job } from "../../api/schema";
import { changesOf, editsOf } from "./edits";

const job: Job = {
  job_id: "1", name: "a", user: "ada", uid: 1, state: "PENDING", partition: "main", submitted_at: "2026-01-01T00:00:00Z",
  time_limit_seconds: 600, tasks: 2,
};

it("an edit sends what differs, numbers as numbers", () => {
  const before = editsOf(job);
  expect(changesOf(before, before)).toEqual({});
  expect(changesOf(before, { ...before, name: "b ", time_limit: "20", tasks: "", nice: "x" })).toEqual({ name: "b", time_limit: 20 });
});
