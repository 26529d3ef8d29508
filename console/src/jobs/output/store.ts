/**
 * An output as a page reads it: its end first, earlier parts when they are wanted, and what the job writes while it runs.
 * At most some MiB are kept. Components are told at most once a frame.
 */

import type { EventSourceMessage } from "eventsource-parser";
import { ProblemError } from "../../api/problem";
import { followed } from "../../live/eventStream";
import type { LiveState } from "../../live/messages";
import { addBytes, rowsOf } from "./decode";
import { OutputRows } from "./rows";
import type { OutputSource } from "./source";

/** How much is read at once. */
const PART_BYTES = 256 * 1024;
/** The stream waits for the next frame after so many characters. */
const FRAME_CHARACTERS = 256 * 1024;

interface Part {
  bytes: Uint8Array;
  begin: number;
  size: number;
}

export class OutputStore {
  rows = new OutputRows();
  /** How many bytes the output has, as far as is known. */
  size = 0;
  state: "reading" | "ready" | "none" | "failed" = "reading";
  error: unknown = null;
  live: LiveState | null = null;
  /** Whether the job has ended, and everything that it wrote is known. */
  ended = false;
  /** When the end was read last, in ms since 1970; null before. */
  readAt: number | null = null;
  /** How many lines the stream has brought to their ends. */
  linesCame = 0;
  /** New whenever something changed. */
  version = 0;
  private readonly watchers = new Set<() => void>();
  private frame = 0;
  private busy = false;
  private streaming: AbortController | null = null;
  private streamed = 0;
  /** The byte behind which there is only a part of a character. */
  private stuck = -1;
  private inFrame = 0;
  private readonly closed = new AbortController();

  constructor(readonly source: OutputSource) {}

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  snapshot = (): number => this.version;

  close(): void {
    this.closed.abort();
    this.pause();
    cancelAnimationFrame(this.frame);
  }

  /** Reads the end, or the beginning, in place of what is there. */
  async open(where: "start" | "end"): Promise<void> {
    await this.alone(async () => {
      const part = await this.part(where === "end" ? `-${PART_BYTES}` : `0-${PART_BYTES - 1}`);
      const rows = rowsOf(part.bytes, part.begin, part.begin + part.bytes.length >= part.size);
      rows.generation = this.rows.generation + 1;
      this.rows = rows;
      this.size = part.size;
      this.readAt = Date.now();
      this.state = "ready";
    });
  }

  get hasEarlier(): boolean {
    return this.rows.begin > 0;
  }

  get hasLater(): boolean {
    return this.rows.end < this.size && this.rows.end !== this.stuck;
  }

  async earlier(): Promise<void> {
    if (!this.hasEarlier) return;
    await this.alone(async () => {
      const until = this.rows.begin;
      const part = await this.part(`${Math.max(0, until - PART_BYTES)}-${until - 1}`);
      if (part.begin + part.bytes.length === until) this.rows.prepend(rowsOf(part.bytes, part.begin, false));
    });
  }

  async later(): Promise<void> {
    if (!this.hasLater) return;
    await this.alone(async () => {
      const from = this.rows.end;
      const part = await this.part(`${from}-${from + PART_BYTES - 1}`);
      this.size = part.size;
      if (part.begin === from) addBytes(this.rows, part.bytes, true);
      this.stuck = this.rows.end === from ? from : -1;
    });
  }

  /** Follows the output from its known end on, where its source has a stream. */
  follow(): void {
    const address = this.source.live;
    if (address === null || this.streaming !== null || this.ended || this.closed.signal.aborted) return;
    const own = (this.streaming = new AbortController());
    this.streamed = this.state === "ready" ? Math.max(this.size, this.rows.end) : 0;
    // A character that was cut off at the end is read again, whole.
    if (!this.hasLater || this.rows.end > this.size - 4) this.streamed = this.rows.end;
    void followed({
      address,
      lastId: () => String(this.streamed),
      message: (message) => this.take(message),
      state: (state) => {
        if (own.signal.aborted) return;
        this.live = state;
        this.tell();
      },
      ready: () => this.nextFrame(),
      signal: own.signal,
    });
  }

  /** Lets the stream go, such as while nobody looks. */
  pause(): void {
    this.streaming?.abort();
    this.streaming = null;
    this.live = null;
  }

  private take(message: EventSourceMessage): void {
    const end = Number(message.id);
    if (message.event === "end") {
      this.ended = true;
      this.pause();
    } else if (message.event === "reset") {
      const rows = new OutputRows();
      rows.generation = this.rows.generation + 1;
      this.rows = rows;
      this.size = 0;
      this.streamed = 0;
    } else if (Number.isSafeInteger(end) && end > this.streamed) {
      if (this.rows.end === this.streamed) this.rows.append(message.data, end);
      this.state = "ready";
      this.streamed = end;
      this.size = Math.max(this.size, end);
      this.inFrame += message.data.length;
      this.linesCame += message.data.split("\n").length - 1;
    }
    this.tell();
  }

  /** Resolves at once while little came since the last frame. */
  private async nextFrame(): Promise<void> {
    if (this.inFrame < FRAME_CHARACTERS) return;
    this.inFrame = 0;
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }

  private async part(range: string): Promise<Part> {
    try {
      const { bytes, range: answered } = await this.source.read(range, this.closed.signal);
      const told = /^bytes (\d+)-\d+\/(\d+)$/.exec(answered ?? "");
      return told === null ? { bytes, begin: 0, size: bytes.length } : { bytes, begin: Number(told[1]), size: Number(told[2]) };
    } catch (error) {
      // There are no such bytes: the output is empty, or became shorter.
      if (error instanceof ProblemError && error.status === 416) return { bytes: new Uint8Array(), begin: 0, size: 0 };
      throw error;
    }
  }

  /** One read at a time; a second that is wanted meanwhile is left out. */
  private async alone(read: () => Promise<void>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      await read();
      this.error = null;
    } catch (error) {
      if (this.closed.signal.aborted) return;
      this.error = error;
      if (this.state === "reading") this.state = error instanceof ProblemError && error.status === 404 ? "none" : "failed";
    } finally {
      this.busy = false;
      this.tell();
    }
  }

  private tell(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.version += 1;
      for (const watcher of this.watchers) watcher();
    });
  }
}
