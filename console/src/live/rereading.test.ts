import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Rereading, type Sight } from "./rereading";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

class Tab implements Sight {
  away = false;
  private readonly seen = new Set<() => void>();
  hidden = () => this.away;
  onSeen = (seen: () => void) => {
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
  const rereading = new Rereading(() => new Promise<void>((resolve) => ends.push(resolve)), new Tab());
  rereading.want();
  await vi.advanceTimersByTimeAsync(1_000);
  for (let second = 0; second < 5; second += 1) {
    rereading.want();
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
  const rereading = new Rereading(read, new Tab());
  for (let event = 0; event < 50; event += 1) rereading.want();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(read).toHaveBeenCalledTimes(1);
  rereading.want();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(read).toHaveBeenCalledTimes(2);
});

test("a hidden tab waits, and reads once when it is seen again", async () => {
  const tab = new Tab();
  const read = vi.fn();
  const rereading = new Rereading(read, tab);
  tab.away = true;
  for (let minute = 0; minute < 10; minute += 1) {
    rereading.want();
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
  const rereading = new Rereading(read, tab);
  rereading.want();
  rereading.end();
  tab.show();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(read).not.toHaveBeenCalled();
});
