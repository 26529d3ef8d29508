/**
 * Reads again after events: after a pause, so that many are one read, never two reads at a time, and not while nobody
 * looks. A read that takes longer than the pause is not cut off; what is asked for during it is read after its end, so
 * that the last read began after the last event.
 */

/** The pause where none is named, and the longest one once the tab is seen again. */
const PAUSE_MS = 1_000;

/** Whether the tab is looked at. */
export interface TabVisibility {
  hidden(): boolean;
  /** Calls back whenever the tab is seen again, until the returned function is called. */
  onVisible(seen: () => void): () => void;
}

export const tabVisibility: TabVisibility = {
  hidden: () => document.visibilityState === "hidden",
  onVisible: (seen) => {
    const changed = () => {
      if (document.visibilityState !== "hidden") seen();
    };
    document.addEventListener("visibilitychange", changed);
    return () => document.removeEventListener("visibilitychange", changed);
  },
};

export class Refetcher {
  /** The shortest pause that was asked for since the last read began; null where no read is wanted. */
  private wanted: number | null = null;
  private reading = false;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private due = 0;
  private ended = false;
  private readonly unwatch: () => void;

  /** `read` reads once. It tells false where it had to take an answer that was asked for earlier: then one more follows. */
  constructor(
    private readonly read: () => unknown,
    private readonly visibility: TabVisibility = tabVisibility,
  ) {
    this.unwatch = visibility.onVisible(() => this.wait(PAUSE_MS));
  }

  /** Asks for one more read within so many milliseconds; the earliest that was asked for counts. */
  want(pause = PAUSE_MS): void {
    this.wanted = Math.min(this.wanted ?? pause, pause);
    this.wait(pause);
  }

  end(): void {
    this.ended = true;
    this.unwatch();
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  /** Waits for the pause that is wanted, `most` at most. */
  private wait(most: number): void {
    if (this.wanted === null || this.ended || this.reading || this.visibility.hidden()) return;
    const pause = Math.min(this.wanted, most);
    const due = Date.now() + pause;
    if (this.timer !== null) {
      if (this.due <= due) return;
      clearTimeout(this.timer);
    }
    this.due = due;
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.now();
    }, pause);
  }

  private async now(): Promise<void> {
    if (this.wanted === null || this.visibility.hidden()) return;
    const pause = this.wanted;
    this.wanted = null;
    this.reading = true;
    try {
      if ((await this.read()) === false) this.wanted ??= pause;
    } catch {
      // The query itself tells its error.
    }
    this.reading = false;
    if (this.wanted !== null) this.wait(this.wanted);
  }
}
