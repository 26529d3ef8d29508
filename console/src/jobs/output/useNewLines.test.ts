import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { PAUSE_MS } from "../../ui/changeAnnouncer";
import { sayNewLines } from "./useNewLines";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("lines that come are told by their number, and not more often than every 10 s", () => {
  const store = { linesCame: 3 };
  const said: number[] = [];
  sayNewLines(store, (lines) => said.push(lines));

  for (let second = 0; second < 25; second += 1) {
    store.linesCame += 1;
    vi.advanceTimersByTime(1_000);
  }

  expect(PAUSE_MS).toBe(10_000);
  expect(said).toEqual([10, 10]);
});

test("nothing is told where no line came, and nothing any more once it is stopped", () => {
  const store = { linesCame: 0 };
  const said: number[] = [];
  const stop = sayNewLines(store, (lines) => said.push(lines));
  vi.advanceTimersByTime(3 * PAUSE_MS);
  store.linesCame = 5;
  stop();
  vi.advanceTimersByTime(3 * PAUSE_MS);

  expect(said).toEqual([]);
});
