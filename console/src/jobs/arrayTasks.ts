/** Slurm's notation of the tasks of an array, such as `0-4,7,10-20:2%3`: counted and shortened without spelling out. */

interface Range {
  first: number;
  last: number;
  step: number;
}

const RANGE = /^(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?$/;

/** The id of the array of a task, such as `42` of `42_7`; the id itself of any other job. */
export function arrayOf(jobId: string): string {
  const end = jobId.indexOf("_");
  return end < 0 ? jobId : jobId.slice(0, end);
}

/** The number of a task, such as 7 of `42_7`; null of any other job. */
export function taskOf(jobId: string): number | null {
  const end = jobId.indexOf("_");
  if (end < 0) return null;
  const task = Number(jobId.slice(end + 1));
  return Number.isSafeInteger(task) ? task : null;
}

/** The tasks that one record stands for: waiting ones, or ones that ended before they started; empty for a single job or task. */
export function tasksOfRecord({ array_tasks, unstarted_tasks }: { array_tasks?: string; unstarted_tasks?: string }): string {
  return array_tasks || unstarted_tasks || "";
}

/** How many tasks there are. A part that cannot be read, such as the `...` of a list that Slurm shortened, counts as one. */
export function taskCount(tasks: string): number {
  let total = 0;
  for (const part of parts(tasks)) {
    const range = rangeOf(part);
    total += range === null ? 1 : Math.floor((range.last - range.first) / range.step) + 1;
  }
  return total;
}

/** The tasks without one of them. The same text where it is not among them; empty where it was the only one. */
export function without(tasks: string, task: number): string {
  let found = false;
  const kept = parts(tasks).flatMap((part) => {
    const range = rangeOf(part);
    if (range === null || task < range.first || task > range.last || (task - range.first) % range.step !== 0) return [part];
    found = true;
    return [
      text({ ...range, last: task - range.step }),
      text({ ...range, first: task + range.step }),
    ].filter((each) => each !== null);
  });
  if (!found) return tasks;
  const limit = tasks.indexOf("%");
  return kept.length === 0 ? "" : kept.join(",") + (limit < 0 ? "" : tasks.slice(limit));
}

function parts(tasks: string): string[] {
  const limit = tasks.indexOf("%");
  return (limit < 0 ? tasks : tasks.slice(0, limit)).split(",").filter((part) => part !== "");
}

function rangeOf(part: string): Range | null {
  const found = RANGE.exec(part);
  if (found === null) return null;
  const first = Number(found[1]);
  const range = { first, last: Number(found[2] ?? first), step: Number(found[3] ?? 1) };
  return range.step < 1 || range.last < range.first ? null : range;
}

function text({ first, last, step }: Range): string | null {
  if (last < first) return null;
  const end = first + Math.floor((last - first) / step) * step;
  if (end === first) return String(first);
  return step === 1 ? `${first}-${end}` : `${first}-${end}:${step}`;
}
