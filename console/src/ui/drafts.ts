/** What a person has written and not sent yet: kept in the browser, per person and cluster, and bounded. */

import { useCallback, useEffect, useRef, useState } from "react";
import * as v from "valibot";

/** A larger draft is not kept. */
export const LARGEST_DRAFT = 256 * 1024;
/** With one more the oldest goes. */
export const MOST_DRAFTS = 20;
const WAIT_MS = 300;

const Kept = v.object({ at: v.number(), draft: v.unknown() });

export interface DraftPlace {
  person: string;
  cluster: string;
  /** What it is a draft of, such as `submit`. */
  name: string;
}

function prefixOf({ person, cluster }: DraftPlace): string {
  return `clusterra:draft:${encodeURIComponent(person)}:${encodeURIComponent(cluster)}:`;
}

function keyOf(place: DraftPlace): string {
  return prefixOf(place) + encodeURIComponent(place.name);
}

/** A kept draft; null where there is none, or where it is not what this page writes. */
export function readDraft<T>(storage: Storage, place: DraftPlace, schema: v.GenericSchema<unknown, T>): T | null {
  try {
    const kept = v.safeParse(Kept, JSON.parse(storage.getItem(keyOf(place)) ?? "null"));
    if (!kept.success) return null;
    const draft = v.safeParse(schema, kept.output.draft);
    return draft.success ? draft.output : null;
  } catch {
    return null;
  }
}

/** Keeps a draft. False where it is too large, or the browser keeps nothing. */
export function writeDraft(storage: Storage, place: DraftPlace, draft: unknown, now: number): boolean {
  try {
    const written = JSON.stringify({ at: now, draft });
    if (written.length > LARGEST_DRAFT) return false;
    forgetOldest(storage, place);
    storage.setItem(keyOf(place), written);
    return true;
  } catch {
    return false;
  }
}

export function forgetDraft(storage: Storage, place: DraftPlace): void {
  try {
    storage.removeItem(keyOf(place));
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
}

function forgetOldest(storage: Storage, place: DraftPlace): void {
  const own = keyOf(place);
  const others: { key: string; at: number }[] = [];
  for (let index = 0; index < storage.length; index += 1) {
    const key = storage.key(index);
    if (key === null || key === own || !key.startsWith(prefixOf(place))) continue;
    others.push({ key, at: age(storage.getItem(key)) });
  }
  others.sort((one, other) => other.at - one.at);
  for (const { key } of others.slice(MOST_DRAFTS - 1)) storage.removeItem(key);
}

function age(written: string | null): number {
  try {
    const kept = v.safeParse(Kept, JSON.parse(written ?? "null"));
    return kept.success ? kept.output.at : 0;
  } catch {
    return 0;
  }
}

interface Draft<T> {
  value: T;
  set: (change: (before: T) => T) => void;
  /** Forgets it: what it was a draft of is sent. */
  forget: () => void;
}

/** A draft that survives a reload. `first` is what there is without one. */
export function useDraft<T>(place: DraftPlace, schema: v.GenericSchema<unknown, T>, first: () => T): Draft<T> {
  const [value, setValue] = useState<T>(() => readDraft(localStorage, place, schema) ?? first());
  const pending = useRef<{ value: T } | null>(null);
  const latest = useRef(place);
  latest.current = place;
  const write = useCallback(() => {
    if (pending.current === null) return;
    writeDraft(localStorage, latest.current, pending.current.value, Date.now());
    pending.current = null;
  }, []);
  useEffect(() => {
    const timer = setTimeout(write, WAIT_MS);
    return () => clearTimeout(timer);
  }, [value, write]);
  useEffect(() => {
    addEventListener("pagehide", write);
    return () => {
      removeEventListener("pagehide", write);
      write();
    };
  }, [write]);
  const set = useCallback((change: (before: T) => T) => {
    setValue((before) => {
      const after = change(before);
      if (after !== before) pending.current = { value: after };
      return after;
    });
  }, []);
  const forget = useCallback(() => {
    pending.current = null;
    forgetDraft(localStorage, latest.current);
  }, []);
  return { value, set, forget };
}
