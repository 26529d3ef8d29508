import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SingleReads } from "./singleReads";

interface Flight {
  jobId: string;
  land: () => void;
}

function reads() {
  const flights: Flight[] = [];
  const one = (jobId: string) => new Promise<void>((land) => flights.push({ jobId, land }));
  return { flights, reads: new SingleReads({ one, many: () => Promise.resolve() }) };
}

const names = (flights: readonly Flight[]) => flights.map(({ jobId }) => jobId);

describe("single reads of jobs", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("reads a job again that is wanted while it is read, after that has ended", async () => {
    const { flights, reads: made } = reads();
    made.want("1");
    await vi.advanceTimersByTimeAsync(200);
    made.want("1");
    made.want("1");
    await vi.advanceTimersByTimeAsync(2_000);
    expect(names(flights)).toEqual(["1"]);
    flights[0]?.land();
    await vi.advanceTimersByTimeAsync(200);
    expect(names(flights)).toEqual(["1", "1"]);
    flights[1]?.land();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(names(flights)).toEqual(["1", "1"]);
    made.end();
  });

  it("does not wait with another job for one that is read", async () => {
    const { flights, reads: made } = reads();
    made.want("1");
    await vi.advanceTimersByTimeAsync(200);
    made.want("1");
    made.want("2");
    await vi.advanceTimersByTimeAsync(2_000);
    expect(names(flights)).toEqual(["1", "2"]);
    made.end();
  });
});
