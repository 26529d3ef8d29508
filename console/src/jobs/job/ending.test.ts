import { describe, expect, it } from "vitest";
import { endingOf } from "./ending";

describe("the ending of a job", () => {
  it("is told of failed jobs alone", () => {
    expect(endingOf({ state: "RUNNING" })).toBeNull();
    expect(endingOf({ state: "COMPLETED", exit_code: 0 })).toBeNull();
    expect(endingOf({ state: "CANCELLED", signal: 15 })).toBeNull();
  });

  it.each([
    [{ state: "OUT_OF_MEMORY", signal: 9 }, "memory"],
    [{ state: "TIMEOUT", signal: 15 }, "time"],
    [{ state: "NODE_FAIL" }, "worker_lost"],
    [{ state: "FAILED", exit_code: 127 }, "not_found"],
    [{ state: "FAILED", exit_code: 126 }, "not_executable"],
    [{ state: "FAILED", exit_code: 137 }, "killed"],
    [{ state: "FAILED", exit_code: 139 }, "segfault"],
    [{ state: "FAILED", exit_code: 0, signal: 10 }, "signal"],
    [{ state: "FAILED", exit_code: 3 }, "exit"],
    [{ state: "FAILED", exit_code: 1, reason: "FilesNotOpened" }, "files"],
    [{ state: "FAILED" }, "unknown"],
  ])("of %o is %s", (job, cause) => {
    expect(endingOf(job)?.cause).toBe(cause);
  });
});
