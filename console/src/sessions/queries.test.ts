import { expect, test } from "vitest";
import { failedAs, openAddress, secondsLeft } from "./queries";

test("the time left counts from the start of the job, and never below zero", () => {
  const job = { started_at: "2026-11-27T06:00:00Z", time_limit_seconds: 3600 };
  expect(secondsLeft(job, Date.parse("2026-11-27T06:15:00Z"))).toBe(2700);
  expect(secondsLeft(job, Date.parse("2026-11-27T08:00:00Z"))).toBe(0);
  expect(secondsLeft({ ...job, time_limit_seconds: null }, 0)).toBeNull();
  expect(secondsLeft({ ...job, started_at: null }, 0)).toBeNull();
});

test("an address names one session, whatever its parts have", () => {
  expect(openAddress("main", "14")).toBe("/v1/clusters/main/sessions/14/open");
  expect(openAddress("../x", "1/../2?a")).toBe("/v1/clusters/..%2Fx/sessions/1%2F..%2F2%3Fa/open");
});

test("a session has failed when its job has, and not before it has ended", () => {
  expect(failedAs("ended", "FAILED")).toBe("FAILED");
  expect(failedAs("ended", "TIMEOUT")).toBe("TIMEOUT");
  expect(failedAs("ended", "CANCELLED")).toBeNull();
  expect(failedAs("ended", undefined)).toBeNull();
  expect(failedAs("ready", "FAILED")).toBeNull();
});
