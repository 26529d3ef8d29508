/** The keys of a slider over the moments of a chart. */

const STEP = 1;
const PAGE = 10;

/** The index of the moment that a key leads to from `at`, of moments 0 to `last`; null of any other key. */
export function movedBy(key: string, at: number, last: number): number | null {
  switch (key) {
    case "ArrowLeft":
    case "ArrowDown":
      return Math.max(0, at - STEP);
    case "ArrowRight":
    case "ArrowUp":
      return Math.min(last, at + STEP);
    case "PageDown":
      return Math.max(0, at - PAGE);
    case "PageUp":
      return Math.min(last, at + PAGE);
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return null;
  }
}

/** The index of the newest moment that is not after `moment`. Moments move away at the beginning while a chart is watched. */
export function indexAt(times: readonly number[], moment: number): number {
  return Math.max(0, times.findLastIndex((time) => time <= moment));
}
