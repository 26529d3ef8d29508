/** Whether what is shown is live: connected and with what delay, catching up, or as of when. */

import { useEffect, useRef, useState } from "react";
import type { LiveState } from "../../live/messages";
import { useFeed, useLiveStatus } from "../../live/useLive";
import { text } from "../../texts";
import { duration, exact, short } from "../../ui/format";
import { useNow } from "../../ui/useNow";
import classes from "./LiveMark.module.css";

export function LiveMark() {
  const { state, heard } = useLiveStatus();
  const delay = useDelay(state);
  const at = new Date(heard);
  const words =
    state === "live"
      ? text("app.live.live")
      : state === "connecting"
        ? text("app.live.connecting")
        : text("app.live.as_of", { time: short(at) });
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

/** For how long the delay of an event is told: later it says nothing of now. */
const TOLD_MS = 60_000;

/**
 * The delay of the newest event in seconds, from when it happened until it came here; null where none has come of late.
 * Events from before the stream was live, which are told again, were late for another reason.
 */
function useDelay(state: LiveState): number | null {
  const feed = useFeed();
  const now = useNow();
  const liveSince = useRef(Date.now());
  const [delay, setDelay] = useState<{ seconds: number; at: number } | null>(null);
  useEffect(() => {
    if (state === "live") liveSince.current = Date.now();
  }, [state]);
  useEffect(
    () =>
      feed.listen((events) => {
        const newest = Date.parse(events.at(-1)?.time ?? "");
        if (!(newest >= liveSince.current)) return;
        // Tenths: a mark that changes with each event would draw the eye.
        setDelay({ seconds: Math.round((Date.now() - newest) / 100) / 10, at: Date.now() });
      }),
    [feed],
  );
  return delay === null || now - delay.at > TOLD_MS ? null : Math.max(0, delay.seconds);
}
