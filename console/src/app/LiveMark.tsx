/** Whether what is shown is live: connected, connecting, or as of when. */

import { useLiveStatus } from "../live/useLive";
import { text } from "../texts";
import { clock, exact } from "../ui/format";
import classes from "./LiveMark.module.css";

export function LiveMark() {
  const { state, since } = useLiveStatus();
  const at = new Date(since);
  const words =
    state === "live"
      ? text("app.live.live")
      : state === "connecting"
        ? text("app.live.connecting")
        : text("app.live.as_of", { time: clock(at) });
  return (
    <span role="status" className={classes.mark} data-state={state} title={exact(at)}>
      <span aria-hidden>●</span> {words}
    </span>
  );
}
