/**
 * Tells screen readers how many lines came to an output that is followed. The lines themselves are not read out as they
 * come: one a second would leave a reader no time for anything else.
 */

import { useEffect } from "react";
import { text } from "../../texts";
import { announce } from "../../ui/announcements";
import { PAUSE_MS } from "../../ui/changeAnnouncer";
import { count } from "../../ui/format";
import type { OutputStore } from "./store";

/** Says now and then how many lines came since, until it is stopped; nothing where none came. */
export function sayNewLines(store: Pick<OutputStore, "linesCame">, say: (lines: number) => void): () => void {
  let told = store.linesCame;
  const timer = setInterval(() => {
    const lines = store.linesCame - told;
    told = store.linesCame;
    if (lines > 0) say(lines);
  }, PAUSE_MS);
  return () => clearInterval(timer);
}

export function useNewLines(store: OutputStore, following: boolean): void {
  useEffect(() => {
    if (!following) return undefined;
    return sayNewLines(store, (lines) => announce(text("job.output.new_lines", { count: lines, shown: count(lines) })));
  }, [store, following]);
}
