import { expect, test } from "vitest";
import type { Job } from "../api/schema";
import { isArray, listedTasks, MOST_TASKS, recordsOf } from "./arrayRecords";

function task(job_id: string, state: string): Job {
  return { job_id, state, name: "a", user: "ada", uid: 1, partition: "main", submitted_at: "2026-01-01T00:00:00Z" };
}

test("the tasks of an array, the failed ones first, once each, and nobody else's", () => {
  const found = [task("9_10", "COMPLETED"), task("9_2", "COMPLETED"), task("9_3", "FAILED"), task("9_7", "RUNNING"), task("19", "FAILED")];
  const tasks = listedTasks(recordsOf("9", [...found, task("9_3", "FAILED"), { ...task("9", "PENDING"), array_tasks: "11-12" }]));
  expect(tasks.map(({ job_id }) => job_id)).toEqual(["9_3", "9_7", "9_2", "9_10", "9"]);
});

test("of a large array a bounded number", () => {
  const found = Array.from({ length: 3 * MOST_TASKS }, (_, number) => task(`9_${number}`, number === 299 ? "TIMEOUT" : "COMPLETED"));
  const tasks = listedTasks(recordsOf("9", found));
  expect(tasks).toHaveLength(MOST_TASKS);
  expect(tasks[0]?.job_id).toBe("9_299");
});

test("an array is told by its waiting tasks, or by the path of its outputs", () => {
  expect(isArray({ job_id: "9", array_tasks: "1-2" })).toBe(true);
  expect(isArray({ job_id: "9", array_tasks: "", unstarted_tasks: "1-2" })).toBe(true);
  expect(isArray({ job_id: "9", array_tasks: "", standard_output: "/mnt/job_%A_%a.out" })).toBe(true);
  expect(isArray({ job_id: "9_1", array_tasks: "", standard_output: "/mnt/job_%A_%a.out" })).toBe(false);
  expect(isArray({ job_id: "8", array_tasks: "", standard_output: "/mnt/job_8.out" })).toBe(false);
});
