/** What one can do on the page that is open, for the palette. A page names its acts with `useActions`. */

import { createContext, useContext, useEffect, useRef, useSyncExternalStore } from "react";

export interface Action {
  id: string;
  /** A verb and its object, such as "Cancel job 4711". */
  label: string;
  run: () => void;
}

export class ActionRegistry {
  private readonly sets = new Map<symbol, readonly Action[]>();
  private readonly watchers = new Set<() => void>();
  private all: readonly Action[] = [];

  set(owner: symbol, acts: readonly Action[]): void {
    if (acts.length > 0) this.sets.set(owner, acts);
    else this.sets.delete(owner);
    this.all = [...this.sets.values()].flat();
    for (const watcher of this.watchers) watcher();
  }

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  acts = (): readonly Action[] => this.all;
}

const ActsContext = createContext(new ActionRegistry());

/** Offers these acts in the palette while the component is shown. */
export function useActions(acts: readonly Action[]): void {
  const registry = useContext(ActsContext);
  const latest = useRef(acts);
  latest.current = acts;
  const owner = useRef(Symbol("acts"));
  const names = acts.map(({ id, label }) => `${id} ${label}`).join("\n");
  useEffect(() => {
    const key = owner.current;
    registry.set(
      key,
      latest.current.map((act) => ({ ...act, run: () => latest.current.find(({ id }) => id === act.id)?.run() })),
    );
    return () => registry.set(key, []);
  }, [registry, names]);
}

/** The acts of all that is shown. */
export function useOfferedActions(): readonly Action[] {
  const registry = useContext(ActsContext);
  return useSyncExternalStore(registry.watch, registry.acts);
}
