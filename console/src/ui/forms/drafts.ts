/** What a person has written and not sent yet: kept in the browser, per person and cluster, and bounded. */

import { useCallback, useEffect, useRef, useState } from "react";
import * as v from "valibot";
import { isBeingLeft } from "./leaving";

/** A larger draft is not kept. */
export const LARGEST_DRAFT = 256 * 1024;
/** With one more the oldest goes. */
export const MOST_DRAFTS = 20;
const WAIT_MS = 300;
const SECRET = /^([ \t]*(?:export[ \t]+)?[A-Za-z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD))[ \t]*=.*$/gim;

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

/**
 * An environment, as lines of the form NAME=VALUE, for keeping: whoever has this browser can read what it keeps, and an
 * environment may hold keys. Of variables that are named as such only the name is kept, without `=`, so that the form asks
 * for the value again. Those with other names are kept as they are.
 */
export function withoutSecrets(environment: string): string {
  return environment.replace(SECRET, "$1");
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

/** What of a draft is kept, where it is not all of it. */
type ToKeep<T> = (value: T) => T;

interface Draft<T> {
  value: T;
  set: (change: (before: T) => T) => void;
  /** Forgets it: what it was a draft of is sent. */
  forget: () => void;
}

/** A draft that survives a reload. `first` is what there is without one; `toKeep` leaves out what must not be kept. */
export function useDraft<T>(place: DraftPlace, schema: v.GenericSchema<unknown, T>, first: () => T, toKeep?: ToKeep<T>): Draft<T> {
  const [value, setValue] = useState<T>(() => readDraft(localStorage, place, schema) ?? first());
  const pending = useRef<{ value: T } | null>(null);
  const latest = useRef({ place, toKeep });
  latest.current = { place, toKeep };
  const write = useCallback(() => {
    const written = pending.current;
    pending.current = null;
    // The person has been forgotten, and their drafts with them.
    if (written === null || isBeingLeft()) return;
    const kept = latest.current.toKeep?.(written.value) ?? written.value;
    writeDraft(localStorage, latest.current.place, kept, Date.now());
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
    forgetDraft(localStorage, latest.current.place);
  }, []);
  return { value, set, forget };
}
