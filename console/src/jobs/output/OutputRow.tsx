/** One row of an output: text in its colours, with what was searched marked. Text nodes alone, whatever is in it. */

import { memo } from "react";
import { visible } from "../../ui/UserText";
import { pieces, PLAIN, sameStyle, type Piece, type Style } from "./ansi";
import classes from "./output.module.css";

interface Props {
  text: string;
  style: Style;
  continued: boolean;
  find: string;
  current: boolean;
}

export const OutputRow = memo(function OutputRow({ text, style, continued, find, current }: Props) {
  return (
    <div className={classes.text} data-current={current} data-continued={continued}>
      {pieces(style, text).map((piece, number) => (
        <PieceText key={number} piece={piece} find={find} />
      ))}
      {text === "" ? " " : null}
    </div>
  );
}, isSame);

/** A style is found anew each time, and mostly the same. */
function isSame(one: Props, other: Props): boolean {
  return (
    one.text === other.text &&
    one.continued === other.continued &&
    one.find === other.find &&
    one.current === other.current &&
    sameStyle(one.style, other.style)
  );
}

function PieceText({ piece, find }: { piece: Piece; find: string }) {
  const shown = visible(piece.text);
  const marked = find === "" ? shown : parts(shown, find);
  if (sameStyle(piece, PLAIN)) return marked;
  return (
    <span
      className={classes.piece}
      data-color={piece.color ?? undefined}
      data-background={piece.background ?? undefined}
      data-bold={piece.bold || undefined}
      data-dim={piece.dim || undefined}
      data-italic={piece.italic || undefined}
      data-underline={piece.underline || undefined}
      data-inverse={piece.inverse || undefined}
      data-strike={piece.strike || undefined}
    >
      {marked}
    </span>
  );
}

const MOST_MARKS = 200;

function parts(text: string, find: string) {
  const lower = text.toLowerCase();
  const wanted = find.toLowerCase();
  // Some characters change their length with their case; then nothing is marked.
  if (lower.length !== text.length) return text;
  const found: (string | { hit: string; at: number })[] = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0 && found.length < MOST_MARKS; at = lower.indexOf(wanted, from)) {
    found.push(text.slice(from, at), { hit: text.slice(at, at + wanted.length), at });
    from = at + wanted.length;
  }
  found.push(text.slice(from));
  return found.map((each) => (typeof each === "string" ? each : <mark key={each.at}>{each.hit}</mark>));
}
