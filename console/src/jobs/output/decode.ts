/** Bytes of an output as rows. Bytes that are no UTF-8 become U+FFFD, and every line end becomes LF, as in the stream. */

import { OutputRows } from "./rows";

const LF = 10;
const CR = 13;
/** Of a line that is longer, the part that is there is shown. */
const MOST_LEFT_OUT = 16 * 1024;
const DECODED_AT_ONCE = 64 * 1024;

/**
 * The rows of the bytes that begin at `begin`. Where they begin within a line, they are cut at its end if that is
 * near; a character that is cut off at either end is left out. `begin` and `end` of the rows say what they have.
 */
export function rowsOf(bytes: Uint8Array, begin: number, cutEnd: boolean): OutputRows {
  let from = 0;
  if (begin > 0) {
    const newline = bytes.indexOf(LF);
    if (newline >= 0 && newline < MOST_LEFT_OUT && newline + 1 < bytes.length) from = newline + 1;
    else while (from < Math.min(3, bytes.length) && isContinuation(bytes[from])) from += 1;
  }
  const rows = new OutputRows(begin + from);
  addBytes(rows, from === 0 ? bytes : bytes.subarray(from), cutEnd);
  return rows;
}

/** Bytes behind those of the rows. With `cutEnd`, a character that is cut off is left out. */
export function addBytes(rows: OutputRows, bytes: Uint8Array, cutEnd: boolean): void {
  const begin = rows.end;
  const to = cutEnd ? wholeEnd(bytes) : bytes.length;
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  for (let at = 0; at < to; ) {
    let next = Math.min(at + DECODED_AT_ONCE, to);
    while (next < to && (isContinuation(bytes[next]) || bytes[next - 1] === CR)) next += 1;
    rows.append(decoder.decode(bytes.subarray(at, next)).replaceAll(/\r\n?/g, "\n"), begin + next);
    at = next;
  }
}

/** The end without a character or a line end of which the rest is still to come. */
function wholeEnd(bytes: Uint8Array): number {
  let end = bytes.length;
  if (end > 0 && bytes[end - 1] === CR) return end - 1;
  let back = 0;
  while (back < 3 && end - 1 - back >= 0 && isContinuation(bytes[end - 1 - back])) back += 1;
  const lead = bytes[end - 1 - back] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (length > 1 && length > back + 1 && end > back) end -= back + 1;
  return end;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
