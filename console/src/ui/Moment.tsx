/** A moment relative to now, with the exact one in its title; and a duration that runs. */

import { duration, exact, relative } from "./format";
import { useNow } from "./useNow";

interface MomentProps {
  /** ISO 8601; null is shown as a dash. */
  at: string | null | undefined;
}

/** The clock of the page may be behind what it has just read: that is now, and not to come. */
const JUST_READ_MS = 2_000;

export function Moment({ at }: MomentProps) {
  const now = useNow();
  if (at === null || at === undefined) return <span aria-hidden>–</span>;
  const moment = new Date(at);
  const ahead = moment.getTime() - now;
  const present = ahead > 0 && ahead < JUST_READ_MS ? moment : new Date(now);
  return (
    <time className="number" dateTime={at} title={exact(moment)}>
      {relative(moment, present)}
    </time>
  );
}

interface ElapsedProps {
  from: string;
  /** Null while it still runs. */
  to: string | null | undefined;
}

export function Elapsed({ from, to }: ElapsedProps) {
  const now = useNow();
  const until = to === null || to === undefined ? now : Date.parse(to);
  return <span className="number">{duration(Math.max(0, (until - Date.parse(from)) / 1000))}</span>;
}
