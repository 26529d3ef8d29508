/** The output of a job in a component: its end is read at once, and followed while the job runs and the tab is seen. */

import { useEffect, useState, useSyncExternalStore } from "react";
import { OutputStore, type OutputName } from "./store";

export function useOutput({ cluster, job, stream }: OutputName, running: boolean): OutputStore {
  const [store, setStore] = useState(() => new OutputStore({ cluster, job, stream }));
  useEffect(() => {
    const made = new OutputStore({ cluster, job, stream });
    setStore(made);
    void made.open("end");
    return () => made.close();
  }, [cluster, job, stream]);
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
  return store;
}

function watchVisibility(watcher: () => void): () => void {
  document.addEventListener("visibilitychange", watcher);
  return () => document.removeEventListener("visibilitychange", watcher);
}

function isSeen(): boolean {
  return document.visibilityState === "visible";
}
