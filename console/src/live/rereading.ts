/**
 * Reads again after events: at most once a second, never two reads at a time, and not while nobody looks. What is asked
 * for during a read is read at its end, so that the last read began after the last event.
 */

const PAUSE_MS = 1_000;

/** Whether the tab is looked at. */
export interface Sight {
  hidden(): boolean;
  /** Calls back whenever the tab is seen again, until the returned function is called. */
  onSeen(seen: () => void): () => void;
}

export const tabSight: Sight = {
  hidden: () => document.visibilityState === "hidden",
  onSeen: (seen) => {
    const changed = () => {
      if (document.visibilityState !== "hidden") seen();
    };
    document.addEventListener("visibilitychange", changed);
    return () => document.removeEventListener("visibilitychange", changed);
  },
};

export class Rereading {
  private wanted = false;
  private reading = false;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private readonly unwatch: () => void;

  constructor(
    private readonly read: () => unknown,
    private readonly sight: Sight = tabSight,
  ) {
    this.unwatch = sight.onSeen(() => this.wait());
  }

  /** Asks for one more read. */
  want(): void {
    this.wanted = true;
    this.wait();
  }

  end(): void {
    this.wanted = false;
    this.unwatch();
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  private wait(): void {
    if (!this.wanted || this.reading || this.timer !== null || this.sight.hidden()) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.now();
    }, PAUSE_MS);
  }

  private async now(): Promise<void> {
    if (!this.wanted || this.sight.hidden()) return;
    this.wanted = false;
    this.reading = true;
    try {
      await this.read();
    } catch {
      // The query itself tells its error.
    }
    this.reading = false;
    this.wait();
  }
}
