/**
 * One Server-Sent Events stream of the gateway, by `fetch`: connects, goes on where it was after each break, and reads no
 * faster than its messages are dealt with.
 */

import { createParser, type EventSourceMessage } from "eventsource-parser";
import type { LiveState } from "./messages";

/** A stream is lost that says nothing for so long: the gateway sends a ping every 15 s. */
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 3_000;

export interface EventStream {
  address: string;
  /** The id behind which the stream goes on. */
  lastId: () => string;
  message: (message: EventSourceMessage) => void;
  state: (state: LiveState) => void;
  /** Called with each piece that comes, pings included. */
  heard?: () => void;
  /** Awaited before more is read. */
  ready?: () => Promise<void>;
  /** Ends the stream. */
  signal: AbortSignal;
}

/** `ended`: it said something, and ended. `failed`: it said nothing. */
type Outcome = "ended" | "failed" | "refused";

/** Follows a stream until its signal, or until the gateway refuses it. */
export async function followed(stream: EventStream): Promise<void> {
  let pause = FIRST_PAUSE_MS;
  while (!stream.signal.aborted) {
    const outcome = await connection(stream);
    if (stream.signal.aborted) return;
    if (outcome === "refused") {
      stream.state("refused");
      return;
    }
    if (outcome === "ended") pause = FIRST_PAUSE_MS;
    // A stream that ended is resumed at once, and is not told as lost unless that fails.
    stream.state(outcome === "ended" ? "connecting" : "lost");
    await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}

async function connection(stream: EventStream): Promise<Outcome> {
  const silent = new AbortController();
  let silence = setTimeout(() => silent.abort(), SILENCE_MS);
  let spoke = false;
  try {
    const response = await fetch(stream.address, {
      headers: { Accept: "text/event-stream", "Last-Event-ID": stream.lastId() },
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.any([stream.signal, silent.signal]),
    });
    if ([401, 403, 404].includes(response.status)) return "refused";
    if (!response.ok || response.body === null) return "failed";
    stream.state("live");
    const parser = createParser({ onEvent: stream.message });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return spoke ? "ended" : "failed";
      spoke = true;
      stream.heard?.();
      clearTimeout(silence);
      silence = setTimeout(() => silent.abort(), SILENCE_MS);
      parser.feed(value);
      await stream.ready?.();
    }
  } catch {
    return spoke ? "ended" : "failed";
  } finally {
    clearTimeout(silence);
  }
}
