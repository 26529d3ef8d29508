/** How much of a limit is used, as a bar; the numbers stand beside it. Ticks are thresholds, the hatched part is expected. */

import { text } from "../../texts";
import { percent } from "../../ui/format";
import classes from "../money.module.css";

/** From which part on a limit is nearly used. */
const NEAR = 0.8;

interface Props {
  /** What it is the bar of. */
  label: string;
  /** Parts of the limit; more than 1 beyond it. */
  used: number;
  expected?: number | undefined;
  ticks?: readonly number[];
  /** The amounts in words. */
  usedText: string;
  limitText: string;
}

export function LimitBar({ label, used, expected, ticks = [], usedText, limitText }: Props) {
  // Beyond the limit the bar shows all that is used, and a tick where the limit is.
  const whole = Math.max(1, used, expected ?? 0, ...ticks);
  const width = (part: number) => `${Math.min(100, (part / whole) * 100)}%`;
  const marks = whole > 1 ? [...ticks, 1] : ticks;
  return (
    <div
      className={classes.bar}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(100, Math.round(used * 100))}
      aria-valuenow={Math.round(used * 100)}
      aria-valuetext={text("money.limit.bar", { used: usedText, limit: limitText, share: percent(used) })}
      data-over={used > 1 ? "over" : used >= NEAR ? "near" : undefined}
    >
      {expected === undefined ? null : <span className={classes.expected} style={{ width: width(expected) }} />}
      <span className={classes.used} style={{ width: width(used) }} />
      {marks.map((tick) => (
        <span key={tick} className={classes.tick} style={{ insetInlineStart: `calc(${width(tick)} - 2px)` }} />
      ))}
    </div>
  );
}
