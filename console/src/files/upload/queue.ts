/** The uploads of this tab: at most three files at once, the others wait. They go on while one looks at other pages. */

import { useSyncExternalStore } from "react";
import { whenLeft } from "../../ui/forms/leaving";
import type { NamedFile } from "./dropped";
import { upload, type Source } from "./transfer";

export interface Transfer extends Source {
  id: string;
  /** In bytes. */
  sent: number;
  /** Why it failed; null while it has not. */
  error: unknown;
}

export interface Uploads {
  running: readonly Transfer[];
  failed: readonly Transfer[];
  /** Counts of files. */
  waiting: number;
  done: number;
  total: number;
  /** In bytes. */
  sentBytes: number;
  totalBytes: number;
}

type Send = (source: Source, signal: AbortSignal, progress: (bytes: number) => void) => Promise<void>;

const AT_ONCE = 3;
const TOLD_MS = 200;
const NONE: Uploads = { running: [], failed: [], waiting: 0, done: 0, total: 0, sentBytes: 0, totalBytes: 0 };

export class UploadQueue {
  private waiting: Transfer[] = [];
  private readonly running = new Map<string, { transfer: Transfer; abort: AbortController }>();
  private failed: Transfer[] = [];
  private done = 0;
  private doneBytes = 0;
  private told: Uploads = NONE;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private readonly watchers = new Set<() => void>();

  constructor(private readonly send: Send) {}

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  snapshot = (): Uploads => this.told;

  /** Adds files, whose paths are those in the bucket. */
  add(cluster: string, files: readonly NamedFile[]): void {
    if (this.running.size + this.waiting.length + this.failed.length === 0) {
      this.done = 0;
      this.doneBytes = 0;
    }
    for (const { path, file } of files) {
      const id = crypto.randomUUID();
      this.waiting.push({ id, cluster, path, file, key: id, sent: 0, error: null });
    }
    this.next();
  }

  cancel(id: string): void {
    this.running.get(id)?.abort.abort();
    this.waiting = this.waiting.filter((each) => each.id !== id);
    this.failed = this.failed.filter((each) => each.id !== id);
    this.changed();
  }

  /** Whether a page that is left now would cut off an upload. */
  get isBusy(): boolean {
    return this.running.size + this.waiting.length > 0;
  }

  /** Cancels what is left, and forgets what was done. */
  cancelAll(): void {
    this.waiting = [];
    this.failed = [];
    this.done = 0;
    this.doneBytes = 0;
    for (const { abort } of this.running.values()) abort.abort();
    // Those end by themselves, a moment later: they are no reason to stay.
    this.running.clear();
    this.changed();
  }

  retry(ids: readonly string[]): void {
    this.waiting.push(...this.failed.filter(({ id }) => ids.includes(id)).map((each) => ({ ...each, sent: 0, error: null })));
    this.failed = this.failed.filter(({ id }) => !ids.includes(id));
    this.next();
  }

  private next(): void {
    while (this.running.size < AT_ONCE) {
      const transfer = this.waiting.shift();
      if (transfer === undefined) break;
      const abort = new AbortController();
      this.running.set(transfer.id, { transfer, abort });
      void this.run(transfer, abort.signal);
    }
    this.changed();
  }

  private async run(transfer: Transfer, signal: AbortSignal): Promise<void> {
    try {
      await this.send(transfer, signal, (sent) => {
        transfer.sent = sent;
        this.changed();
      });
      if (!signal.aborted) {
        this.done += 1;
        this.doneBytes += transfer.file.size;
      }
    } catch (error) {
      if (!signal.aborted) this.failed.push({ ...transfer, error });
    }
    this.running.delete(transfer.id);
    this.next();
  }

  /** Tells watchers, a few times a second at most. */
  private changed(): void {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.told = this.summary();
      for (const watcher of this.watchers) watcher();
    }, TOLD_MS);
  }

  private summary(): Uploads {
    const running = [...this.running.values()].map(({ transfer }) => ({ ...transfer }));
    const left = [...running, ...this.waiting, ...this.failed];
    if (left.length === 0 && this.done === 0) return NONE;
    return {
      running,
      failed: [...this.failed],
      waiting: this.waiting.length,
      done: this.done,
      total: this.done + left.length,
      sentBytes: this.doneBytes + running.reduce((sum, each) => sum + each.sent, 0),
      totalBytes: this.doneBytes + left.reduce((sum, each) => sum + each.file.size, 0),
    };
  }
}

export const uploads = new UploadQueue(upload);

// A page that is left takes its uploads with it: the browser asks first.
if (typeof window !== "undefined") {
  window.addEventListener("beforeunload", (event) => {
    if (uploads.isBusy) event.preventDefault();
  });
}

// Uploads belong to the session that began them: the next one has other rights, or is somebody else's.
whenLeft(() => uploads.cancelAll());

export function useUploads(): Uploads {
  return useSyncExternalStore(uploads.watch, uploads.snapshot);
}
