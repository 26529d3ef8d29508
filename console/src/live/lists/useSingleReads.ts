/** The reads of single records of a list in components. */

import { useEffect, useRef, type RefObject } from "react";
import { SingleReads, type Source } from "./singleReads";

/** They end with the component, and begin again with another source. */
export function useSingleReads(source: Source): RefObject<SingleReads | null> {
  const reads = useRef<SingleReads | null>(null);
  useEffect(() => {
    const made = new SingleReads(source);
    reads.current = made;
    return () => made.end();
  }, [source]);
  return reads;
}
