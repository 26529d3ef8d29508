/** The output of a job in a component: its end is read at once, and followed while the job runs and the tab is seen. */

import { useEffect, useState, useSyncExternalStore } from "react";
import type { OutputSource } from "./source";
import { OutputStore } from "./store";

export interface Output {
  store: OutputStore;
  /** Whether more of it may come: the job runs, or its end was not read yet. */
  open: boolean;
}

/** The source is read anew whenever it is another one. */
export function useOutput(source: OutputSource, running: boolean): Output {
  const [store, setStore] = useState(() => new OutputStore(source));
  useEffect(() => {
    const made = new OutputStore(source);
    setStore(made);
    void made.open("end");
    return () => made.close();
  }, [source]);
  useSyncExternalStore(store.watch, store.snapshot);
  const seen = useSyncExternalStore(watchVisibility, isSeen);
  const read = store.state !== "reading";
  // A job that ended while it was followed is followed to the end of its output, which the stream tells.
  const [wasRunning, setWasRunning] = useState(running);
  useEffect(() => {
    if (running) setWasRunning(true);
  }, [running]);
  useEffect(() => {
    if (!read || !seen || !wasRunning) return undefined;
    store.follow();
    return () => store.pause();
  }, [store, read, seen, wasRunning]);
  return { store, open: running || (wasRunning && source.live !== null && !store.ended) };
}

function watchVisibility(watcher: () => void): () => void {
  document.addEventListener("visibilitychange", watcher);
  return () => document.removeEventListener("visibilitychange", watcher);
}

function isSeen(): boolean {
  return document.visibilityState === "visible";
}
