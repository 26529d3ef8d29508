/** A new search brings its first place into sight: once, when the output is there, so that lines that come later move nothing. */

import { useEffect, useRef } from "react";
import type { Finder } from "./find";

export function useFirstFound(finder: Finder, found: readonly number[], ready: boolean, show: (row: number) => void): void {
  const looked = useRef<Finder | null>(null);
  useEffect(() => {
    if (!ready || looked.current === finder) return;
    looked.current = finder;
    if (found[0] !== undefined) show(found[0]);
  });
}
