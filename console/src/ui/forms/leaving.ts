/**
 * The end of a page that belongs to a session which is over. Between that and the next page nothing is sent any more, and
 * nothing is kept: whoever holds something for the person lets it go.
 */

const watchers = new Set<() => void>();
let left = false;

/** Whether this page is being left for good. */
export function isBeingLeft(): boolean {
  return left;
}

/** Calls `watcher` once, when the page is left. */
export function whenLeft(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function endPage(): void {
  if (left) return;
  left = true;
  for (const watcher of watchers) watcher();
}
