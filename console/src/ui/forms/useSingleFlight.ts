/** An act that runs once at a time: a second click joins the first, also before the button could be drawn disabled. */

import { useRef } from "react";

export function useSingleFlight<T>(act: () => Promise<T>): () => Promise<T> {
  const running = useRef<Promise<T> | null>(null);
  return () => {
    running.current ??= act().finally(() => {
      running.current = null;
    });
    return running.current;
  };
}
