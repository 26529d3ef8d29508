/** The lines in sight. Scrolled up it stays where it is, whatever comes; at its end it follows. */

import { VisuallyHidden } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useId, useImperativeHandle, useLayoutEffect, useRef, type Ref } from "react";
import { text } from "../../texts";
import { count } from "../../ui/format";
import { PLAIN, styleAfter, type Style } from "./ansi";
import { OutputRow } from "./OutputRow";
import classes from "./output.module.css";
import type { OutputRows } from "./rows";
import type { OutputStore } from "./store";

const LINE_HEIGHT = 18;
/** Earlier and later parts are read when so many lines are left before them. */
const NEAR_LINES = 60;
/** With fewer lines than that, an earlier part is read at once. */
const FEW_LINES = 100;
/** The colours of the first row in sight are looked for in so many rows before it, and so many characters. */
const LOOKED_BACK = 200;
const LOOKED_BACK_CHARACTERS = 100_000;

export interface LinesHandle {
  jump: (where: "start" | "end") => void;
  /** Brings a row into sight. */
  show: (row: number) => void;
}

interface Props {
  ref: Ref<LinesHandle>;
  store: OutputStore;
  wrap: boolean;
  find: string;
  /** The row that the search stands at. */
  current: number | undefined;
  following: boolean;
  setFollowing: (following: boolean) => void;
}

export function OutputLines({ ref, store, wrap, find, current, following, setFollowing }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const range = useId();
  const { rows } = store;
  const lastTop = useRef(0);
  // Whether the person has done something here since it follows: rows that go at the beginning move the lines up, too.
  const touched = useRef(false);
  const { first } = rows;
  // A new function would have all rows measured again at each scroll.
  const keyOf = useCallback((index: number) => first + index, [first]);
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    getItemKey: keyOf,
    overscan: 20,
  });
  useScrollAnchoring(scroller, rows);
  const { version } = store;
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!following || element === null) return;
    element.scrollTop = element.scrollHeight;
    // The end is further up once rows at the beginning are gone: only a person who goes up from here ends the following.
    lastTop.current = element.scrollTop;
  }, [following, version, wrap]);
  useEffect(() => {
    touched.current = false;
  }, [following]);
  useImperativeHandle(ref, () => ({
    jump(where) {
      virtualizer.scrollToIndex(where === "start" ? 0 : rows.length - 1, { align: where });
    },
    show(row) {
      virtualizer.scrollToIndex(row, { align: "center" });
    },
  }));
  const items = virtualizer.getVirtualItems();
  const firstShown = items[0]?.index ?? 0;
  const lastShown = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (store.state !== "ready") return;
    if ((!following || rows.length < FEW_LINES) && firstShown < NEAR_LINES) void store.earlier();
    else if (lastShown > rows.length - NEAR_LINES) void store.later();
  }, [store, following, firstShown, lastShown, rows, version]);

  function touch(): void {
    touched.current = true;
  }

  function scrolled(): void {
    const element = scroller.current;
    if (element === null) return;
    const up = element.scrollTop < lastTop.current - 2;
    lastTop.current = element.scrollTop;
    const left = element.scrollHeight - element.scrollTop - element.clientHeight;
    if (up && following && left > 2 && touched.current) setFollowing(false);
    else if (!up && !following && left < LINE_HEIGHT && !store.hasLater) setFollowing(true);
  }

  let style = items.length === 0 ? PLAIN : styleAt(rows, firstShown);
  return (
    <>
      <VisuallyHidden id={range}>{items.length < rows.length ? shownLines(store, firstShown, lastShown) : null}</VisuallyHidden>
      <div
        ref={scroller}
        className={classes.scroller}
        onScroll={scrolled}
        onWheel={touch}
        onTouchMove={touch}
        onKeyDown={touch}
        onPointerDown={touch}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={text("job.output.lines")}
        aria-describedby={range}
      >
        <div className={classes.rows} data-wrap={wrap} style={{ height: virtualizer.getTotalSize() }}>
          {items.map((item) => {
            const row = rows.at(item.index);
            if (row === undefined) return null;
            const own = style;
            style = styleAfter(style, row.text);
            return (
              <div
                key={item.key}
                data-index={item.index}
                {...(wrap ? { ref: virtualizer.measureElement } : {})}
                className={classes.row}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <OutputRow text={row.text} style={own} continued={row.continued} find={find} current={item.index === current} />
              </div>
            );
          })}
        </div>
      </div>
    </>
  );
}

/** Which lines are in the page, where not all of them are: a reader comes to their end without a sign of more. */
function shownLines({ rows, size }: OutputStore, first: number, last: number): string {
  const { from, to, lines } = rows.linesOf(first, last);
  const key = rows.begin > 0 || rows.end < size ? "job.output.lines_shown_of_part" : "job.output.lines_shown";
  return text(key, { from: count(from), to: count(to), lines: count(lines) });
}

/** The colours that are in force at a row, from the rows just before it. */
function styleAt(rows: OutputRows, index: number): Style {
  let from = index;
  for (let characters = 0; from > Math.max(0, index - LOOKED_BACK); from -= 1) {
    characters += rows.at(from - 1)?.text.length ?? 0;
    if (characters > LOOKED_BACK_CHARACTERS) break;
  }
  let style = PLAIN;
  for (let at = from; at < index; at += 1) style = styleAfter(style, rows.at(at)?.text ?? "");
  return style;
}

/**
 * Rows that come or go before those in sight do not move them, at the very top neither. It is not that of ui/: these rows
 * change in place, so that those before are gone, and their numbers tell how many came without a search.
 */
function useScrollAnchoring(scroller: { current: HTMLDivElement | null }, rows: OutputRows): void {
  const before = useRef({ rows, first: rows.first });
  const { first } = rows;
  useLayoutEffect(() => {
    const moved = before.current.rows === rows ? before.current.first - first : 0;
    before.current = { rows, first };
    if (moved !== 0 && scroller.current !== null) scroller.current.scrollTop += moved * LINE_HEIGHT;
  }, [scroller, rows, first]);
}
