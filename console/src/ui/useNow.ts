/** The present moment, for ages and times that run: one clock for the whole page. */

import { useSyncExternalStore } from "react";

const watchers = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | null = null;

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  // The clock stood while nobody looked at it.
  if (timer === null) now = Date.now();
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of watchers) each();
  }, 1_000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0 && timer !== null) {
      clearInterval(timer);
      timer = null;
    }
  };
}

const MINUTE_MS = 60_000;

/** Milliseconds since the epoch, new each second. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}

/** The beginning of the present minute, in milliseconds since the epoch. */
export function useMinute(): number {
  return Math.floor(useNow() / MINUTE_MS) * MINUTE_MS;
}
