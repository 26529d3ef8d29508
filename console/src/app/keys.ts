/** Keys that count on every page. */

import { useLocalStorage } from "@mantine/hooks";
import { useEffect, useRef } from "react";

/** Whether keys of one character count. */
export const CHARACTER_KEYS = { key: "clusterra.character-keys", defaultValue: true, getInitialValueInEffect: false } as const;

/** The key that the platform's own shortcuts have. */
export const COMMAND = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";

/** Calls `open` at `?`, but not where one writes. */
export function useKeysDialog(open: () => void): void {
  const [enabled] = useLocalStorage<boolean>(CHARACTER_KEYS);
  const latest = useRef(open);
  latest.current = open;
  useEffect(() => {
    if (!enabled) return;
    const pressed = (event: KeyboardEvent) => {
      if (event.key !== "?" || event.ctrlKey || event.metaKey || event.altKey || writing(event.target)) return;
      event.preventDefault();
      latest.current();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [enabled]);
}

function writing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}
