/** Whether what is shown is live: connected and with what delay, catching up, or as of when. */

import { useEffect, useState } from "react";
import { useFeed, useLiveStatus } from "../live/useLive";
import { text } from "../texts";
import { clock, duration, exact } from "../ui/format";
import classes from "./LiveMark.module.css";

export function LiveMark() {
  const { state, since } = useLiveStatus();
  const delay = useDelay();
  const at = new Date(since);
  const words =
    state === "live"
      ? text("app.live.live")
      : state === "connecting"
        ? text("app.live.connecting")
        : text("app.live.as_of", { time: clock(at) });
  const details = state === "live" && delay !== null ? text("app.live.delay", { delay: duration(delay) }) : exact(at);
  return (
    <span className={classes.mark} data-state={state} title={details}>
      <span aria-hidden>●</span> <span role="status">{words}</span>
      {state === "live" && delay !== null ? (
        <span className={classes.delay} aria-hidden>
          {" "}
          {duration(delay)}
        </span>
      ) : null}
    </span>
  );
}

/** The delay of the newest event in seconds, from when it happened until it came here; null before the first one. */
function useDelay(): number | null {
  const feed = useFeed();
  const [delay, setDelay] = useState<number | null>(null);
  useEffect(
    () =>
      feed.listen((events) => {
        const newest = Date.parse(events.at(-1)?.time ?? "");
        // Tenths: a mark that changes with each event would draw the eye.
        if (Number.isFinite(newest)) setDelay(Math.round(Math.max(0, Date.now() - newest) / 100) / 10);
      }),
    [feed],
  );
  return delay;
}
