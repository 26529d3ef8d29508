/**
 * One stream of a cluster's events, which remembers the newest events for tabs that come later. It knows nothing of
 * tabs or workers.
 */

import type { EventSourceMessage } from "eventsource-parser";
import { readEvent, type LiveEvent } from "./event";
import { followed } from "./eventStream";
import type { LiveState } from "./messages";

/** The most events that are remembered for tabs that come later. */
const REMEMBERED = 5_000;
/** Events that come together are told together. */
const BATCH_MS = 40;

export interface StreamObserver {
  state(): void;
  events(events: LiveEvent[]): void;
  /** Events up to this position are not told. */
  reset(position: number): void;
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
  /** When it last said something. */
  heard = Date.now();

  constructor(
    cluster: string,
    after: number,
    private readonly observer: StreamObserver,
  ) {
    this.from = after;
    this.position = after;
    void followed({
      address: `/v1/clusters/${encodeURIComponent(cluster)}/events/stream`,
      lastId: () => String(this.position),
      message: (message) => this.take(message),
      state: (state) => this.set(state),
      heard: () => {
        this.heard = Date.now();
      },
      signal: this.ended.signal,
    });
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

  private take(message: EventSourceMessage): void {
    const position = Number(message.id);
    if (!Number.isSafeInteger(position)) return;
    if (message.event === "reset") {
      this.remembered = [];
      this.waiting = [];
      this.from = position;
      this.position = position;
      this.observer.reset(position);
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
    this.observer.state();
  }
}
