import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Refetcher, type TabVisibility } from "./refetcher";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

class Tab implements TabVisibility {
  away = false;
  private readonly seen = new Set<() => void>();
  hidden = () => this.away;
  onVisible = (seen: () => void) => {
    this.seen.add(seen);
    return () => void this.seen.delete(seen);
  };
  show(): void {
    this.away = false;
    for (const each of this.seen) each();
  }
}

test("a read is not begun while another one runs, and what came meanwhile is read at its end", async () => {
  const ends: (() => void)[] = [];
  const refetcher = new Refetcher(() => new Promise<void>((resolve) => ends.push(resolve)), new Tab());
  refetcher.want();
  await vi.advanceTimersByTimeAsync(1_000);
  for (let second = 0; second < 5; second += 1) {
    refetcher.want();
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(ends).toHaveLength(1);
  ends[0]?.();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ends).toHaveLength(2);
  ends[1]?.();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(ends).toHaveLength(2);
});

test("many events in a second are one read, and a read that fails ends nothing", async () => {
  const read = vi.fn().mockRejectedValue(new Error("no answer"));
  const refetcher = new Refetcher(read, new Tab());
  for (let event = 0; event < 50; event += 1) refetcher.want();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(read).toHaveBeenCalledTimes(1);
  refetcher.want();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(read).toHaveBeenCalledTimes(2);
});

test("a hidden tab waits, and reads once when it is seen again", async () => {
  const tab = new Tab();
  const read = vi.fn();
  const refetcher = new Refetcher(read, tab);
  tab.away = true;
  for (let minute = 0; minute < 10; minute += 1) {
    refetcher.want();
    await vi.advanceTimersByTimeAsync(60_000);
  }
  expect(read).not.toHaveBeenCalled();
  tab.show();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(read).toHaveBeenCalledTimes(1);
});

test("after its end nothing is read", async () => {
  const read = vi.fn();
  const tab = new Tab();
  const refetcher = new Refetcher(read, tab);
  refetcher.want();
  refetcher.end();
  tab.show();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(read).not.toHaveBeenCalled();
});

describe("with a pause for each wish", () => {
  let begun = 0;
  let answer: (fresh?: boolean) => void = () => undefined;
  const read = () => {
    begun += 1;
    return new Promise<boolean>((resolve) => (answer = (fresh = true) => resolve(fresh)));
  };
  const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);

  beforeEach(() => {
    begun = 0;
  });

  test("many changes are one read, at the earliest time that was wanted", async () => {
    const refetcher = new Refetcher(read, new Tab());
    for (let number = 0; number < 100; number += 1) refetcher.want(5_000);
    await pass(4_000);
    refetcher.want(500);
    refetcher.want(5_000);
    await pass(500);
    expect(begun).toBe(1);
    answer();
    await pass(20_000);
    expect(begun).toBe(1);
  });

  test("a read that takes long is not begun anew, and what changed meanwhile is read once more", async () => {
    const refetcher = new Refetcher(read, new Tab());
    refetcher.want(500);
    await pass(500);
    for (let number = 0; number < 50; number += 1) {
      refetcher.want(500);
      await pass(500);
    }
    expect(begun).toBe(1);
    answer();
    await pass(500);
    expect(begun).toBe(2);
    answer();
    await pass(20_000);
    expect(begun).toBe(2);
  });

  test("an answer that was asked for earlier is followed by another read; a failure is not", async () => {
    const refetcher = new Refetcher(read, new Tab());
    refetcher.want(500);
    await pass(500);
    answer(false);
    await pass(500);
    expect(begun).toBe(2);
    const failing = vi.fn(() => Promise.reject(new Error("no answer")));
    new Refetcher(failing, new Tab()).want(0);
    await pass(10_000);
    expect(failing).toHaveBeenCalledTimes(1);
  });

  test("nothing is read for a page that is gone", async () => {
    const refetcher = new Refetcher(read, new Tab());
    refetcher.want(500);
    refetcher.end();
    refetcher.want(500);
    await pass(10_000);
    expect(begun).toBe(0);
  });

  test("a long pause is no longer than the usual one once the tab is seen again", async () => {
    const tab = new Tab();
    const refetcher = new Refetcher(read, tab);
    tab.away = true;
    refetcher.want(5_000);
    await pass(60_000);
    expect(begun).toBe(0);
    tab.show();
    await pass(1_000);
    expect(begun).toBe(1);
  });
});
