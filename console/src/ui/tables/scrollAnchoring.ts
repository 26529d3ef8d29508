/** Keeps what one reads in place when rows come or go above it. At the very top new rows are shown as they come. */

import { useLayoutEffect, useRef, type RefObject } from "react";

type Key = string | number | bigint;

export interface KeyedRows {
  count: number;
  /** A new function where the rows are new. */
  keyAt: (index: number) => Key;
}

/** How far away from its place a row is looked for. */
const FAR = 20_000;

/** Where the row of a key is now, looked for around the index where it was; null where it is gone, or far away. */
export function indexOfKey(key: Key, was: number, { count, keyAt }: KeyedRows): number | null {
  for (let away = 0; away <= FAR; away += 1) {
    const below = was + away;
    const above = was - away;
    if (below >= count && above < 0) return null;
    if (below < count && keyAt(below) === key) return below;
    if (away > 0 && above >= 0 && above < count && keyAt(above) === key) return above;
  }
  return null;
}

/** `order`: what the rows are sorted by; with another one nothing stays in place. `height`: of each row, in pixels. */
export function useScrollAnchoring(scroller: RefObject<HTMLElement | null>, { count, keyAt }: KeyedRows, order: string, height: number): void {
  const before = useRef({ rows: { count, keyAt }, order });
  useLayoutEffect(() => {
    const { rows, order: was } = before.current;
    before.current = { rows: { count, keyAt }, order };
    const element = scroller.current;
    if (element === null || was !== order || rows.keyAt === keyAt || element.scrollTop <= 0) return;
    const first = Math.floor(element.scrollTop / height);
    if (first >= rows.count) return;
    const now = indexOfKey(rows.keyAt(first), first, { count, keyAt });
    if (now !== null && now !== first) element.scrollTop += (now - first) * height;
  }, [scroller, count, keyAt, order, height]);
}
