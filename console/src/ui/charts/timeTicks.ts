/** The labels of a time axis in the language of the texts: uPlot's own are American. */

import { date, hour } from "../format";

const DAY_SECONDS = 86_400;

/** The label of each moment, in seconds since the epoch; `step`: the seconds between two. A day is named where it begins. */
export function timeTicks(moments: readonly number[], step: number): string[] {
  const days = moments.map((seconds) => date(new Date(seconds * 1_000)));
  return moments.map((seconds, index) => {
    const day = days[index] as string;
    if (step >= DAY_SECONDS) return day;
    const time = hour(new Date(seconds * 1_000));
    return day === days[index - 1] ? time : `${time}\n${day}`;
  });
}
