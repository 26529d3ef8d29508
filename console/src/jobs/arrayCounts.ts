/** The tasks of an array by state, in words. */

import { text } from "../texts";
import { count } from "../ui/format";
import type { StateGroup } from "../ui/jobStates";
import type { ArraySummary } from "./arraySummary";
import { countsOf } from "./rows";

export function countText(group: StateGroup, number: number): string {
  return text("jobs.array.count", { number: count(number), state: text(`ui.states.${group}`).toLowerCase() });
}

/** Such as "4 waiting, 3 running, 1 failed"; of an array that is over, that it is. */
export function summaryText({ counts, over }: Pick<ArraySummary, "counts" | "over">): string {
  const all = countsOf(counts).map(([group, number]) => countText(group, number)).join(", ");
  return over ? text("job.tasks.ended", { counts: all }) : all;
}
