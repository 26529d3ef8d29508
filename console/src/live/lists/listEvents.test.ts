import { describe, expect, it, vi } from "vitest";
import type { LiveEvent } from "../event";
import { ListEvents, type TakeEvents } from "./listEvents";
import { Refetcher } from "../refetcher";

function event(position: number): LiveEvent {
  return { id: String(position), subject: "7", time: "", position, data: { kind: "job.running" } };
}

/** A list that applies what it is given, and the readings that are asked for. */
function followed(rest: TakeEvents = () => []) {
  const taken: number[] = [];
  const again = vi.fn();
  const list = new ListEvents((events) => {
    taken.push(...events.map(({ position }) => position));
    return rest(events);
  }, again);
  return { list, taken, again };
}

const ALL: TakeEvents = (events) => events;

describe("a list that was read as of a position", () => {
  it("lacks the events after it, and no other", () => {
    const { list, taken } = followed();
    list.read(10, []);
    list.told([event(9), event(10), event(11)]);
    list.told([event(12)]);
    expect(taken).toEqual([11, 12]);
  });

  it("lacks nothing before it was read: those events are told after it", () => {
    const { list, taken } = followed();
    list.told([event(11)]);
    expect(taken).toEqual([]);
    list.read(10, [event(11)]);
    expect(taken).toEqual([11]);
  });

  it("takes what came while it was read again, which covers what was changed before", () => {
    const { list, taken } = followed();
    list.read(10, []);
    list.told([event(11), event(12)]);
    // The answer is as of 11, and 12 was told before it came.
    list.read(11, [event(12)]);
    expect(taken).toEqual([11, 12, 12]);
  });

  it("is not read again while its events tell enough", () => {
    const { list, again } = followed();
    list.read(10, []);
    list.told([event(11)]);
    expect(again).not.toHaveBeenCalled();
    expect(list.due).toBe(false);
  });
});

describe("a list whose events tell too little", () => {
  it("is read again for an event after its position, and not for one before", () => {
    const { list, again } = followed(ALL);
    list.read(10, []);
    list.told([event(9), event(10)]);
    expect(again).not.toHaveBeenCalled();
    list.told([event(11)]);
    expect(again).toHaveBeenCalledTimes(1);
  });

  it("asks once for an event that is told again, also where its position lags behind", () => {
    const { list, again } = followed(ALL);
    list.read(10, []);
    list.told([event(11), event(12)]);
    list.read(10, [event(11), event(12)]);
    list.read(11, [event(12)]);
    expect(again).toHaveBeenCalledTimes(1);
    list.told([event(13)]);
    expect(again).toHaveBeenCalledTimes(2);
  });

  it("needs no reading that another one has replaced", () => {
    const { list } = followed(ALL);
    list.read(10, []);
    list.told([event(11)]);
    expect(list.due).toBe(true);
    list.read(11, []);
    expect(list.due).toBe(false);
  });
});

describe("a burst of 500 events that tell too little", () => {
  it("is one reading a second, and one after the last of them", async () => {
    vi.useFakeTimers();
    let last = 10;
    const readings: number[] = [];
    const refetcher = new Refetcher(
      () => {
        if (!list.due) return;
        readings.push(last);
        list.read(last, []);
      },
      { hidden: () => false, onVisible: () => () => undefined },
    );
    const list = new ListEvents(ALL, () => refetcher.want());
    list.read(last, []);
    for (let told = 0; told < 500; told += 1) {
      last += 1;
      list.told([event(last)]);
      await vi.advanceTimersByTimeAsync(4);
    }
    await vi.advanceTimersByTimeAsync(10_000);
    refetcher.end();
    vi.useRealTimers();
    expect(readings).toHaveLength(2);
    expect(readings.at(-1)).toBe(510);
  });
});

describe("a gap", () => {
  it("has the list read again, and events of another stream with lower positions count", () => {
    const { list, taken, again } = followed(ALL);
    list.read(900, []);
    list.told([event(901)]);
    list.lost();
    expect(again).toHaveBeenCalledTimes(2);
    expect(list.due).toBe(true);
    list.read(3, []);
    expect(list.due).toBe(false);
    list.told([event(4)]);
    expect(again).toHaveBeenCalledTimes(3);
    expect(taken).toEqual([901, 4]);
  });

  it("is all that came while a list without a position was read", () => {
    const { list, taken, again } = followed();
    list.told([event(11)]);
    list.read(null, []);
    expect(again).toHaveBeenCalledTimes(1);
    list.read(null, []);
    expect(again).toHaveBeenCalledTimes(1);
    list.told([event(12)]);
    expect(taken).toEqual([12]);
  });
});
