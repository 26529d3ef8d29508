import { expect, test } from "vitest";
import { isOfState } from "./explained";

const STATES = ["pending", "running", "ended"] as const;

test.each([
  ["PENDING", ["pending"]],
  ["REQUEUED", ["pending"]],
  ["CONFIGURING", ["pending", "running"]],
  ["RUNNING", ["running"]],
  ["SUSPENDED", ["running"]],
  ["FAILED", ["ended"]],
  ["COMPLETED", ["ended"]],
  ["CANCELLED", ["ended"]],
])("%s is explained as %j", (state, explained) => {
  expect(STATES.filter((each) => isOfState({ state: each }, { state, array_tasks: "" }))).toEqual(explained);
});

test("an array of which tasks wait is in several states", () => {
  expect(STATES.filter((state) => isOfState({ state }, { state: "RUNNING", array_tasks: "3-5" }))).toEqual(STATES);
});
