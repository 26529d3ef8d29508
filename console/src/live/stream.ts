/**
 * One stream of a cluster's events: connects, resumes where it was, and remembers the newest events for tabs that come
 * later. It knows nothing of tabs or workers.
 */

import { createParser, type EventSourceMessage } from "eventsource-parser";
import { readEvent, type LiveEvent } from "./event";
import type { LiveState } from "./messages";

/** The most events that are remembered for tabs that come later. */
const REMEMBERED = 5_000;
/** A stream is lost that says nothing for so long: the gateway sends a ping every 15 s. */
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 3_000;
/** Events that come together are told together. */
const BATCH_MS = 40;

export interface StreamObserver {
  state(state: LiveState): void;
  events(events: LiveEvent[]): void;
  reset(): void;
}

export class ClusterStream {
  private remembered: LiveEvent[] = [];
  /** Everything after this position is remembered. */
  private from: number;
  private position: number;
  private waiting: LiveEvent[] = [];
  private timer: ReturnType<typeof setTimeout> | null = null;
  private readonly ended = new AbortController();
  current: LiveState = "connecting";

  constructor(
    private readonly cluster: string,
    after: number,
    private readonly observer: StreamObserver,
  ) {
    this.from = after;
    this.position = after;
    void this.run();
  }

  /** The events after a position; null where they are no longer remembered. */
  after(position: number): LiveEvent[] | null {
    if (position < this.from) return null;
    return this.remembered.filter((event) => event.position > position);
  }

  end(): void {
    this.ended.abort();
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private async run(): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    while (!this.ended.signal.aborted) {
      const outcome = await this.connection();
      if (this.ended.signal.aborted) return;
      if (outcome === "refused") {
        this.set("refused");
        return;
      }
      if (outcome === "ended") pause = FIRST_PAUSE_MS;
      // A stream that ended is resumed at once, and is not told as lost unless that fails.
      this.set(outcome === "ended" ? "connecting" : "lost");
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }

  private async connection(): Promise<"ended" | "failed" | "refused"> {
    const silent = new AbortController();
    const signal = AbortSignal.any([this.ended.signal, silent.signal]);
    let silence = setTimeout(() => silent.abort(), SILENCE_MS);
    try {
      const response = await fetch(`/v1/clusters/${encodeURIComponent(this.cluster)}/events/stream`, {
        headers: { Accept: "text/event-stream", "Last-Event-ID": String(this.position) },
        credentials: "same-origin",
        cache: "no-store",
        signal,
      });
      if ([401, 403, 404].includes(response.status)) return "refused";
      if (!response.ok || response.body === null) return "failed";
      this.set("live");
      const parser = createParser({ onEvent: (message) => this.take(message) });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return "ended";
        clearTimeout(silence);
        silence = setTimeout(() => silent.abort(), SILENCE_MS);
        parser.feed(value);
      }
    } catch {
      return this.current === "live" ? "ended" : "failed";
    } finally {
      clearTimeout(silence);
    }
  }

  private take(message: EventSourceMessage): void {
    const position = Number(message.id);
    if (!Number.isSafeInteger(position)) return;
    if (message.event === "reset") {
      this.remembered = [];
      this.waiting = [];
      this.from = position;
      this.position = position;
      this.observer.reset();
      return;
    }
    if (position <= this.position) return;
    this.position = position;
    const event = readEvent(message.data, position);
    if (event === null) return;
    this.remembered.push(event);
    if (this.remembered.length > 2 * REMEMBERED) {
      this.remembered = this.remembered.slice(-REMEMBERED);
      this.from = (this.remembered[0]?.position ?? position) - 1;
    }
    this.waiting.push(event);
    this.timer ??= setTimeout(() => this.tell(), BATCH_MS);
  }

  private tell(): void {
    this.timer = null;
    const events = this.waiting;
    this.waiting = [];
    if (events.length > 0) this.observer.events(events);
  }

  private set(state: LiveState): void {
    if (state === this.current) return;
    this.current = state;
    this.observer.state(state);
  }
}
