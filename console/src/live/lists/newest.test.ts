import { describe, expect, test } from "vitest";
import type { ArchivePage } from "../archive";
import type { LiveEvent } from "../event";
import { afterRead, joins, merged, NONE_YET, pagesAfter, withEvents } from "./newest";

function events(from: number, to: number): LiveEvent[] {
  return Array.from({ length: to - from + 1 }, (_, index) => {
    const position = from + index;
    return { id: `e${position}`, subject: "7", time: new Date(position * 1_000).toISOString(), data: { kind: "job.running" }, position };
  });
}

function page(newest: number, oldest: number): ArchivePage {
  return { events: events(oldest, newest).toReversed(), next: { cursor: `c${oldest}`, until: null }, position: newest, until: null };
}

const positions = (rows: readonly { id: string }[]) => rows.map(({ id }) => Number(id.slice(1)));

describe("the newest events", () => {
  test("stay when pages are read meanwhile, and each event is drawn once", () => {
    const held = withEvents(withEvents(NONE_YET, events(10, 12)), events(11, 14));
    expect(positions(merged(held, [page(10, 8), page(8, 5)]))).toEqual([14, 13, 12, 11, 10, 9, 8, 7, 6, 5]);
  });

  test("have no hole before the pages when there are more than the bound", () => {
    let held = NONE_YET;
    let pages = [page(10, 5)];
    for (let at = 11; at <= 100; at += 3) held = withEvents(held, events(at, at + 2), 10);
    expect(held.events.length).toBeLessThanOrEqual(20);
    expect(joins(held, pages)).toBe(false);
    expect(positions(merged(held, pages))).toEqual(positions(held.events.toReversed()));
    pages = pagesAfter(held, pages);
    expect(joins(held, pages)).toBe(true);
    // The archive is asked for what is older than the oldest held one, or that one itself.
    const oldest = held.events[0]?.position ?? 0;
    const until = Date.parse(pages[0]?.next?.until ?? "");
    const rest = { ...page(100, 1), events: events(1, 100).filter(({ time }) => Date.parse(time) < until).toReversed() };
    expect(positions(merged(held, [...pages, rest]))).toEqual(positions(events(1, 100).toReversed()));
    expect(oldest).toBeGreaterThan(80);
  });

  test("that a read of the archive has are not held any more", () => {
    let held = NONE_YET;
    for (let at = 1; at <= 40; at += 1) held = withEvents(held, events(at, at), 10);
    expect(held.gone).not.toBeNull();
    const read = afterRead(held, 38);
    expect(positions(read.events)).toEqual([39, 40]);
    expect(read.gone).toBeNull();
    expect(joins(read, [page(38, 20)])).toBe(true);
  });

  test("that went before a slow read are still missing after it", () => {
    let held = NONE_YET;
    for (let at = 1; at <= 40; at += 1) held = withEvents(held, events(at, at), 10);
    expect(joins(afterRead(held, 2), [page(2, 1)])).toBe(false);
  });
});
