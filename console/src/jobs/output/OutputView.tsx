/** The output of a job: its newest lines at once, live while it runs, earlier ones when one scrolls up. */

import { Button, Checkbox, SegmentedControl } from "@mantine/core";
import { useMemo, useRef, useState } from "react";
import { text } from "../../texts";
import { useAnnounced } from "../../ui/announcements";
import { bytes, count, short } from "../../ui/format";
import { Empty } from "../../ui/Empty";
import { ProblemView } from "../../ui/ProblemView";
import { Finder, MOST_FOUND } from "./find";
import { FindBox } from "./FindBox";
import { OutputLines, type LinesHandle } from "./OutputLines";
import classes from "./output.module.css";
import type { OutputSource, StreamName } from "./source";
import type { OutputStore } from "./store";
import { useFirstFound } from "./useFirstFound";
import { useNewLines } from "./useNewLines";
import { useOutput } from "./useOutput";

export interface OutputChoice {
  stream: StreamName;
  wrap: boolean;
  find: string;
}

interface Props {
  /** That of the chosen stream; the same object as long as it is the same output. */
  source: OutputSource;
  /** Whether the job may still write. */
  running: boolean;
  /** Whether it has a file of its own for stderr. */
  hasErrors: boolean;
  choice: OutputChoice;
  choose: (to: Partial<OutputChoice>) => void;
}

export function OutputView({ source, running, hasErrors, choice, choose }: Props) {
  const { store, open } = useOutput(source, running);
  const lines = useRef<LinesHandle>(null);
  const [following, setFollowing] = useState(true);
  const finder = useMemo(() => new Finder(choice.find), [choice.find]);
  const found = finder.found(store.rows);
  const [current, setCurrent] = useState(-1);
  const row = current < 0 ? undefined : found[Math.min(current, found.length - 1)];
  // Whether the search has just turned Follow off, by going to a line.
  const [turnedOff, setTurnedOff] = useState(false);
  const matches = choice.find === "" ? "" : foundText(found.length, current);
  // Lines that come change the number, too; it is not said again for them.
  useAnnounced(turnedOff && !following ? text("job.output.found_not_following", { found: matches }) : matches, `${current} ${choice.find}`);
  useNewLines(store, following && source.live !== null);

  useFirstFound(finder, found, store.state === "ready", show);

  function show(at: number): void {
    setTurnedOff(following && source.live !== null);
    setFollowing(false);
    lines.current?.show(at);
  }

  function change(find: string): void {
    setTurnedOff(false);
    setCurrent(-1);
    choose({ find });
  }

  function step(by: number): void {
    if (found.length === 0) return;
    const next = current < 0 ? (by > 0 ? 0 : found.length - 1) : (current + by + found.length) % found.length;
    setCurrent(next);
    show(found[next] ?? 0);
  }

  async function jump(where: "start" | "end"): Promise<void> {
    setFollowing(where === "end");
    if (where === "start" ? store.hasEarlier : store.hasLater) await store.open(where);
    lines.current?.jump(where);
  }

  return (
    <section className={classes.viewer} aria-label={text("job.output.name")}>
      <div className={classes.tools}>
        {hasErrors ? (
          <SegmentedControl
            aria-label={text("job.output.stream")}
            value={choice.stream}
            onChange={(stream) => choose({ stream: stream as StreamName })}
            data={["stdout", "stderr"]}
          />
        ) : null}
        <FindBox find={choice.find} change={change} step={step} />
        {choice.find === "" ? null : <span className={classes.found}>{matches}</span>}
        <Button variant="default" onClick={() => void jump("start")}>{text("job.output.start")}</Button>
        <Button variant="default" onClick={() => void jump("end")}>{text("job.output.end")}</Button>
        {source.live === null ? null : (
          <Checkbox label={text("job.output.follow")} checked={following} onChange={(event) => (event.currentTarget.checked ? void jump("end") : setFollowing(false))} />
        )}
        <Checkbox label={text("job.output.wrap")} checked={choice.wrap} onChange={(event) => choose({ wrap: event.currentTarget.checked })} />
        {source.download === null ? null : (
          <Button variant="default" component="a" href={source.download.address} download={source.download.name}>
            {text("job.output.download")}
          </Button>
        )}
      </div>
      {store.error !== null && store.state !== "none" ? <ProblemView error={store.error} retry={() => void store.open("end")} /> : null}
      {store.state === "none" ? (
        <div className={classes.none}>
          <Empty title={text("job.output.none")}>{text("job.output.none_details")}</Empty>
        </div>
      ) : store.state === "ready" && store.size === 0 && !open ? (
        <div className={classes.none}>
          <Empty title={text("job.output.empty")} />
        </div>
      ) : (
        <OutputLines ref={lines} store={store} wrap={choice.wrap} find={choice.find} current={row} following={following} setFollowing={setFollowing} />
      )}
      <StatusLine store={store} running={running} open={open} />
    </section>
  );
}

/** How many lines match, and at which of them the search stands; at none below 0. */
function foundText(found: number, current: number): string {
  const shown = found >= MOST_FOUND ? `${count(MOST_FOUND)}+` : count(found);
  if (current < 0) return text("job.output.matches", { count: found, shown });
  return text("job.output.found", { at: count(Math.min(current, found - 1) + 1), count: found, shown });
}

interface StatusProps {
  store: OutputStore;
  running: boolean;
  /** Whether more may come. */
  open: boolean;
}

function StatusLine({ store, running, open }: StatusProps) {
  const { rows, size } = store;
  if (store.state === "none") return null;
  const part = rows.begin > 0 || rows.end < size;
  return (
    <div className={classes.status}>
      <span>
        {part
          ? text("job.output.part", { from: bytes(rows.begin), to: bytes(rows.end), size: bytes(size) })
          : text("job.output.whole", { size: bytes(size) })}
      </span>
      <span>{freshness(store, running, open)}</span>
    </div>
  );
}

function freshness({ state, live, readAt, source }: OutputStore, running: boolean, open: boolean): string {
  if (state === "reading") return text("ui.loading");
  if (source.live === null && readAt !== null) return text("job.output.as_of", { time: short(new Date(readAt)) });
  if (!open) return text("job.output.still");
  return live === "live" && !running ? text("job.output.ending") : text(`job.output.live.${live ?? "connecting"}`);
}
