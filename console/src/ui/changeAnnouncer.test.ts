import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ChangeAnnouncer, PAUSE_MS } from "./changeAnnouncer";

describe("changes that are said", () => {
  let said: string[];
  let announcer: ChangeAnnouncer;
  beforeEach(() => {
    vi.useFakeTimers();
    said = [];
    announcer = new ChangeAnnouncer((message) => said.push(message));
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("are none of what the page showed first, nor of the same again", () => {
    announcer.tell("Waiting", true);
    announcer.tell("Waiting", true);
    announcer.tell("Running", true);
    announcer.tell("Running", true);
    announcer.tell("Done", true);
    expect(said).toEqual(["Running", "Done"]);
  });

  it("are few where there are many, and the last one is among them", () => {
    announcer.tell("0 done", false);
    for (let second = 1; second <= 25; second += 1) {
      announcer.tell(`${second} done`, false);
      vi.advanceTimersByTime(1_000);
    }
    expect(said).toEqual(["1 done", "10 done", "20 done"]);
    vi.advanceTimersByTime(PAUSE_MS);
    expect(said.at(-1)).toBe("25 done");
    vi.advanceTimersByTime(10 * PAUSE_MS);
    expect(said).toHaveLength(4);
  });

  it("are told at once when they matter, in place of what was waiting to be said", () => {
    announcer.tell("3 running", false);
    announcer.tell("2 running", false);
    announcer.tell("1 running", false);
    announcer.tell("All tasks ended: 3 done", true);
    vi.advanceTimersByTime(10 * PAUSE_MS);
    expect(said).toEqual(["2 running", "All tasks ended: 3 done"]);
  });

  it("are none once it is stopped", () => {
    announcer.tell("3 running", false);
    announcer.tell("2 running", false);
    announcer.tell("1 running", false);
    announcer.stop();
    vi.advanceTimersByTime(10 * PAUSE_MS);
    expect(said).toEqual(["2 running"]);
  });
});
